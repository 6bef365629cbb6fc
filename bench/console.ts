/**
 * The console in Chromium before a large fleet: until 50 gateways are painted, from a move of the time bar until the past is
 * painted, and the memory of a tab after as many events as an hour of tail has. `--shots FOLDER` keeps a picture of each page,
 * and `--empty` takes them of a fleet that has nothing.
 */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { type Browser, chromium, type Page } from 'playwright-core';
import { LargeFleet, size } from './support/console/large-fleet.ts';

const { values } = parseArgs({
  options: {
    samples: { type: 'string', default: '40' },
    events: { type: 'string', default: '36000' },
    shots: { type: 'string' },
    empty: { type: 'boolean', default: false },
  },
});
const samples = Number(values.samples);
const paths = [
  ...['/fleet', '/gateways', '/gateways/edge-1', '/nodes', '/stacks', '/orgs', '/orgs/org-1', '/keys'],
  ...[
    '/usage?org=org-1',
    '/limits',
    '/limits?org=org-1',
    '/events',
    '/explain',
    '/explain?org=org-1',
    '/doctor',
  ],
];

function percentile(times: readonly number[], share: number): number {
  const sorted = [...times].sort((a, b) => a - b);
  return Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0);
}

async function signedIn(browser: Browser, fleet: LargeFleet, width: number, dark: boolean): Promise<Page> {
  const context = await browser.newContext({
    baseURL: fleet.console,
    viewport: { width, height: 900 },
    colorScheme: dark ? 'dark' : 'light',
    reducedMotion: 'reduce',
  });
  const page = await context.newPage();
  await page.goto('/sign-in');
  await page.getByLabel('Operator token').fill(fleet.operatorToken);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await page.getByRole('heading', { name: 'Fleet', level: 1 }).waitFor();
  return page;
}

/** ms since the navigation, when all rows were painted. */
async function gatewaysPainted(page: Page): Promise<number[]> {
  const times: number[] = [];
  for (let n = 0; n < samples / 2; n++) {
    await page.goto('/gateways', { waitUntil: 'commit' });
    times.push(
      await page.evaluate<number>(`new Promise((resolve) => {
        const look = () => document.querySelectorAll('tbody tr').length >= ${size.gateways}
          ? requestAnimationFrame(() => resolve(performance.now())) : requestAnimationFrame(look);
        look();
      })`),
    );
  }
  return times;
}

/** ms from the move until the page of that position was painted. */
async function travelled(page: Page, path: string, head: number): Promise<number[]> {
  await page.goto(path);
  await page.locator('.loading').waitFor({ state: 'detached' });
  const times: number[] = [];
  for (let n = 0; n < samples; n++) {
    const position = 5000 + ((n * 7919 * 13) % (head - 5000));
    times.push(
      await page.evaluate<number>(`new Promise((resolve) => {
        const slider = document.querySelector('input[aria-label="Position"]');
        const began = performance.now();
        slider.value = '${position}';
        slider.dispatchEvent(new Event('input', { bubbles: true }));
        const isThere = () => new URL(location.href).searchParams.get('at') === '${position}' &&
          !document.querySelector('.loading') && document.querySelector('tbody tr, .tile');
        const look = () => isThere() ? requestAnimationFrame(() => resolve(performance.now() - began))
          : requestAnimationFrame(look);
        requestAnimationFrame(look);
      })`),
    );
  }
  return times;
}

async function heapBytes(page: Page): Promise<number> {
  const session = await page.context().newCDPSession(page);
  await session.send('HeapProfiler.enable');
  await session.send('HeapProfiler.collectGarbage');
  const { usedSize } = await session.send('Runtime.getHeapUsage');
  await session.detach();
  return usedSize;
}

async function shoot(browser: Browser, fleet: LargeFleet, folder: string): Promise<void> {
  mkdirSync(folder, { recursive: true });
  for (const [width, dark] of [
    [1440, false],
    [360, true],
  ] as const) {
    const page = await signedIn(browser, fleet, width, dark);
    for (const path of paths) {
      await page.goto(path);
      await page.locator('h1').waitFor();
      await page
        .locator('.loading')
        .waitFor({ state: 'detached', timeout: 10_000 })
        .catch(() => undefined);
      const name = `${path.slice(1).replace(/[/?=]/g, '-')}-${width}.png`;
      await page.screenshot({ path: join(folder, name) });
    }
    await page.context().close();
  }
}

async function measure(browser: Browser, fleet: LargeFleet): Promise<object> {
  const page = await signedIn(browser, fleet, 1440, false);
  const painted = await gatewaysPainted(page);
  const nodes = await travelled(page, '/nodes', fleet.head);
  const keys = await travelled(page, '/keys?org=org-1', fleet.head);
  await page.goto('/events');
  await page.getByRole('list', { name: 'Events' }).waitFor();
  const before = await heapBytes(page);
  await fleet.append(Number(values.events));
  await page.getByText(`log at`).waitFor();
  const after = await heapBytes(page);
  return {
    gatewaysPaintedMs: { p50: percentile(painted, 0.5), p95: percentile(painted, 0.95) },
    travelNodesMs: { p50: percentile(nodes, 0.5), p95: percentile(nodes, 0.95) },
    travelKeysMs: { p50: percentile(keys, 0.5), p95: percentile(keys, 0.95) },
    heapMegabytes: { before: Math.round(before / 1e5) / 10, after: Math.round(after / 1e5) / 10 },
    tailed: Number(values.events),
    head: fleet.head,
  };
}

const fleet = await LargeFleet.start(values.empty);
const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });
try {
  if (values.shots !== undefined) await shoot(browser, fleet, values.shots);
  if (!values.empty) {
    const figures = await measure(browser, fleet);
    console.table(figures);
    console.log(JSON.stringify(figures));
  }
} finally {
  await browser.close();
  await fleet.close();
}
