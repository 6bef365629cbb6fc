/**
 * A real browser for tests of pages, with the pages' content security policy in force. A test fails on any error that the
 * page logs or throws, on a policy violation, and on a request to another origin.
 */
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import { expect } from 'vitest';
import { scaledMs } from './budget.ts';

const executablePath = '/usr/bin/chromium';
export const isBrowserInstalled = existsSync(executablePath);
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/**
 * Browser features to disable. Menus that are pages of their own (two per context) and spare renderer processes, which no
 * test sees, took more time than the pages under test.
 */
const unseen = [
  'PreloadTopChromeWebUI',
  'SpareRendererForSitePerProcess',
  'WebUIOmniboxAimPopup',
  'WebUIOmniboxPopup',
];

/**
 * Features that Playwright disables. They are repeated here because the browser uses only the last such list on its command
 * line.
 */
const offByPlaywright = [
  ...['AimEnabled', 'AvoidCorsURLLoaderRestartOnRedirect', 'AvoidUnnecessaryBeforeUnloadCheckSync'],
  ...['DestroyProfileOnBrowserClose', 'HttpsFirstBalancedModeAutoEnable', 'HttpsUpgrades', 'LensOverlay'],
  ...['MediaRouter', 'NetworkTimeServiceQuerying', 'OptimizationHints', 'PaintHolding', 'PreconnectToSearch'],
  ...['ThirdPartyStoragePartitioning'],
];

export function launchBrowser(): Promise<Browser> {
  const off = [...offByPlaywright, ...unseen].join(',');
  return chromium.launch({ executablePath, args: ['--no-sandbox', `--disable-features=${off}`] });
}

export interface View {
  readonly width?: number;
  readonly scheme?: 'light' | 'dark';
  /** Time zone of the browser, for example `America/Los_Angeles`. */
  readonly timezone?: string;
  /** Console errors to ignore, such as the browser's own message about status 401. */
  readonly allowed?: RegExp;
  /** Another origin to which the tested page redirects. Errors on pages of that origin are ignored. */
  readonly partner?: string;
}

export class WatchedPage {
  readonly page: Page;
  readonly context: BrowserContext;
  readonly #faults: string[] = [];

  constructor(
    context: BrowserContext,
    page: Page,
    { origin, allowed, partner }: { origin: string; allowed: RegExp; partner: string | undefined },
  ) {
    this.context = context;
    this.page = page;
    const isElsewhere = (): boolean => partner !== undefined && page.url().startsWith(partner);
    page.on('console', (message) => {
      if (isElsewhere()) return;
      const text = message.text();
      if (['error', 'warning'].includes(message.type()) && !allowed.test(text)) this.#faults.push(text);
    });
    page.on('pageerror', (error) => this.#faults.push(`thrown: ${error.message}`));
    page.on('request', (request) => {
      const url = new URL(request.url());
      if (isElsewhere() || url.origin === partner) return;
      if (!url.protocol.startsWith('http') || url.origin === origin) return;
      this.#faults.push(`foreign: ${url.href}`);
    });
  }

  static async open(browser: Browser, origin: string, view: View = {}): Promise<WatchedPage> {
    const { width = 1440, scheme = 'light', timezone, allowed = /status of 401/, partner } = view;
    const context = await browser.newContext({
      baseURL: origin,
      viewport: { width, height: 900 },
      colorScheme: scheme,
      ...(timezone !== undefined && { timezoneId: timezone }),
      reducedMotion: 'reduce',
      permissions: ['clipboard-read', 'clipboard-write'],
    });
    context.setDefaultTimeout(scaledMs(15_000));
    return new WatchedPage(context, await context.newPage(), { origin, allowed, partner });
  }

  /** Fails if the page has caused any error so far. */
  expectClean(): void {
    expect(this.#faults).toEqual([]);
  }

  /** Fails if an accessibility rule is violated or if something is wider than the window. */
  async expectAccessible(what: string): Promise<void> {
    if (!(await this.page.evaluate<boolean>(`'axe' in window`)))
      await this.page.evaluate(`(() => { ${axe}; })()`);
    const run = `axe.run({ resultTypes: ['violations'] }).then(({ violations }) =>
      violations.map(({ id, nodes }) => id + ' ' + nodes.map(({ html }) => html.slice(0, 200)).join(' ')))`;
    expect([what, await this.page.evaluate<string[]>(run)]).toEqual([what, []]);
    const wider = await this.page.evaluate<number>(
      'document.documentElement.scrollWidth - window.innerWidth',
    );
    expect([what, Math.max(0, wider)]).toEqual([what, 0]);
  }

  async close(): Promise<void> {
    await this.context.close();
  }
}
