/** The documentation's site in a real browser: it can be read, searched and used by keyboard, on a wide and a narrow screen. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { beforeAll, expect, test } from 'vitest';
import { launchBrowser, type View, WatchedPage } from './support/browser.ts';

const kinds: Readonly<Record<string, string>> = { css: 'text/css', js: 'text/javascript', png: 'image/png' };
let browser: Browser;
let origin: string;

beforeAll(async () => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-site-'));
  expect(spawnSync(process.execPath, ['scripts/site.mjs', folder]).status).toBe(0);
  const server = createServer(({ url = '/' }, response) => {
    const path = url === '/' ? '/index.html' : url;
    response.setHeader('content-type', kinds[path.split('.').at(-1) ?? ''] ?? 'text/html');
    response.end(readFileSync(join(folder, path)));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  browser = await launchBrowser();
  return async () => {
    await browser.close();
    server.close();
    rmSync(folder, { recursive: true, force: true });
  };
});

async function withPage(view: View, use: (watched: WatchedPage) => Promise<void>): Promise<void> {
  const watched = await WatchedPage.open(browser, origin, view);
  await use(watched);
  watched.expectClean();
  await watched.close();
}

/** All pages of the navigation, each with its heading. */
async function* visitPages({ page }: WatchedPage): AsyncGenerator<string> {
  await page.goto('/');
  const addresses = await page.evaluate<string[]>(
    `[...document.querySelectorAll('nav[aria-label="Pages"] a')].map(({ href }) => href)`,
  );
  expect(addresses.length).toBeGreaterThan(20);
  for (const address of [origin, ...addresses]) {
    await page.goto(address);
    await page.getByRole('heading', { level: 1 }).waitFor();
    yield address;
  }
}

test('no page of the navigation is wider than a narrow screen', async () => {
  await withPage({ width: 360 }, async (watched) => {
    const wider = 'document.documentElement.scrollWidth - window.innerWidth';
    for await (const address of visitPages(watched))
      expect([address, await watched.page.evaluate<number>(wider)]).toEqual([address, 0]);
  });
});

test.each([
  { width: 1280, scheme: 'light' },
  { width: 360, scheme: 'dark' },
] as const)('the rules of accessibility hold at $width pixels, $scheme', async (view) => {
  await withPage(view, async (watched) => {
    for (const path of ['/', '/docs/privacy.html', '/docs/limits.html', '/docs/errors/HG1001.html']) {
      await watched.page.goto(path);
      await watched.expectAccessible(path);
    }
  });
});

test('a word leads to its heading, by keyboard alone', async () => {
  await withPage({}, async ({ page }) => {
    await page.goto('/docs/errors/HG1001.html');
    await page.keyboard.press('Tab');
    expect(await page.evaluate<string>('document.activeElement.textContent')).toBe('Skip to the content');
    await page.getByRole('searchbox', { name: 'Search' }).focus();
    await page.keyboard.type('leaked key');
    await page.getByRole('link', { name: /Revoke a leaked key/ }).waitFor();
    await page.keyboard.press('Enter');
    await page.waitForURL('**/docs/operate.html#*');
    await page.getByRole('searchbox').fill('zzzz');
    await page.getByText('Nothing found').waitFor();
  });
});
