/** Pictures of every page, wide and light, narrow and dark; of any fleet whose operator's token is known. */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { startProcess } from '../../../test/support/processes.ts';

export interface SeenFleet {
  readonly console: string;
  readonly operatorToken: string;
  /** Addresses of pages without a session. */
  readonly open?: readonly string[];
  readonly paths: readonly string[];
  close(): Promise<void>;
}

const heightMax = 2000;
const common = [
  ...[
    '/sign-in',
    '/fleet',
    '/gateways',
    '/nodes',
    '/stacks',
    '/orgs',
    '/keys',
    '/limits',
    '/limits?visitors',
  ],
  ...['/events', '/explain', '/doctor'],
];
const ofOrganisation = (id: string, at: number): string[] => [
  ...[`/orgs/${id}`, `/keys?org=${id}`, `/usage?org=${id}`, `/limits?org=${id}`, `/explain?org=${id}`],
  ...[`/explain?org=${id}&model=echo-small`, `/keys?org=${id}&at=${at}`],
];
export const emptyPaths = [...common, '/usage'];
export const largePaths = [...common, '/gateways/edge-1', ...ofOrganisation('org-1', 5000)];

interface Dev {
  readonly operatorToken: string;
  readonly console: { readonly url: string };
  readonly gateways: readonly { readonly name: string; readonly api: string; readonly play: string }[];
  readonly stacks: readonly { readonly id: string }[];
  readonly organisations: readonly { readonly id: string; readonly key: string }[];
}

/** The demo fleet, with some requests served and some refused. */
export async function demoFleet(): Promise<SeenFleet> {
  const dir = mkdtempSync(join(tmpdir(), 'headgate-bench-demo-'));
  const ports = ['--port', '0', '--admin-port', '0', '--metrics-port', '0'];
  const env = { HEADGATE_CONTEXT: join(dir, 'context.json'), HEADGATE_GATEWAY_TOKEN: undefined };
  const args = ['dev', '--data', join(dir, 'data'), ...ports];
  const dev = await startProcess<Dev>({ dir, name: 'dev', args, env, timeoutMs: 60_000 });
  const { console: pages, operatorToken, gateways, stacks, organisations } = dev.ready;
  for (const { key } of organisations)
    for (const model of ['echo-small', 'echo-small', 'echo-large']) {
      const body = JSON.stringify({ model, messages: [{ role: 'user', content: 'hello' }] });
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
      await fetch(`${gateways[0]?.api ?? ''}/chat/completions`, { method: 'POST', headers, body });
    }
  const ofStacks = stacks.flatMap(({ id }) => [`/stacks/${id}`, `/stacks/${id}?tab=credentials`]).slice(0, 4);
  return {
    ...{ console: pages.url, operatorToken, open: [gateways[0]?.play ?? ''] },
    paths: [...common, `/gateways/${gateways[0]?.name}`, ...ofStacks, ...ofOrganisation('acme', 12)],
    close: async () => {
      await dev.end();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

export async function signIn(page: Page, operatorToken: string): Promise<void> {
  await page.goto('/sign-in');
  await page.getByLabel('Operator token').fill(operatorToken);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await page.getByRole('heading', { name: 'Fleet', level: 1 }).waitFor();
}

const conditionMsMax = 120_000;

/** Until the expression is true; asked from here, because the policy of the pages lets none of them evaluate a text. */
export async function pageUntil(page: Page, expression: string): Promise<void> {
  const beganMs = performance.now();
  while (!(await page.evaluate<boolean>(expression))) {
    if (performance.now() - beganMs > conditionMsMax) throw new Error(`not so in time: ${expression}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Until nothing on the page is loading any more. */
export async function settled(page: Page): Promise<void> {
  await page.locator('h1').first().waitFor();
  await pageUntil(page, `document.querySelector('.loading, [aria-busy=true]') === null`);
}

/** One picture of each page in the folder; and the pages that are wider than their window. */
export async function takePictures(browser: Browser, fleet: SeenFleet, folder: string): Promise<string[]> {
  mkdirSync(folder, { recursive: true });
  const tooWide: string[] = [];
  for (const [width, dark] of [
    [1440, false],
    [360, true],
  ] as const) {
    const context = await browser.newContext({
      baseURL: fleet.console,
      viewport: { width, height: 900 },
      colorScheme: dark ? 'dark' : 'light',
      reducedMotion: 'reduce',
    });
    const page = await context.newPage();
    const take = async (path: string, name: string): Promise<void> => {
      await page.goto(path);
      await settled(page);
      const pageHeight = await page.evaluate<number>('document.documentElement.scrollHeight');
      const clip = { x: 0, y: 0, width, height: Math.min(pageHeight, heightMax) };
      await page.screenshot({ path: join(folder, `${name}-${width}.png`), fullPage: true, clip });
      const isWider = 'document.documentElement.scrollWidth > window.innerWidth';
      if (await page.evaluate<boolean>(isWider)) tooWide.push(`${path} at ${width}`);
    };
    for (const [index, path] of (fleet.open ?? []).entries()) await take(path, `open-${index}`);
    await take('/sign-in', 'sign-in');
    await signIn(page, fleet.operatorToken);
    for (const path of fleet.paths) {
      if (path === '/sign-in') continue;
      await take(path, path.slice(1).replace(/[/?=&]/g, '-')).catch((error: unknown) => {
        tooWide.push(`${path} at ${width}: ${String(error).slice(0, 200)}`);
      });
    }
    await context.close();
  }
  return tooWide;
}
