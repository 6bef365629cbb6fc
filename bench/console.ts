/**
 * The console in Chromium before a large fleet: until 50 gateways are painted, from a move of the time bar until the past is
 * painted, and the memory of a tab after as many events as an hour of tail has; with `--only tail --minutes N` at a steady rate
 * for that long; `--only pages`: what each page costs the browser.
 */
import { parseArgs } from 'node:util';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import { LargeFleet, size } from './support/console/large-fleet.ts';
import { pageCosts } from './support/console/page-costs.ts';
import { pageUntil, settled, signIn } from './support/console/seen-page.ts';

const { values } = parseArgs({
  options: {
    samples: { type: 'string', default: '40' },
    events: { type: 'string', default: '36000' },
    only: { type: 'string' },
    minutes: { type: 'string' },
  },
});
/** `--only paint`, `travel`, `tail` or `pages`. */
const isWanted = (part: string): boolean => (values.only ?? part) === part;
const samples = Number(values.samples);
/** A page that is not there by then fails the bench, with what it shows instead. */
const paintMsMax = 30_000;
/** Events are written for so long at most: a machine that is slower has fewer of them. */
const commandsMsMax = 45_000;
/** Of a tail of `--minutes`. */
const eventsPerSecond = 8;
const sampleEveryMinutes = 5;
const viewport = { width: 1440, height: 900 };

function percentile(times: readonly number[], share: number): number {
  const sorted = [...times].sort((a, b) => a - b);
  return Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0);
}

/** Until all rows are painted, ms since the navigation. */
function gatewaysPainted(page: Page): Promise<number> {
  return page.evaluate<number>(`new Promise((resolve, reject) => {
    const look = () => document.querySelectorAll('tbody tr').length >= ${size.gateways}
      ? requestAnimationFrame(() => resolve(performance.now()))
      : performance.now() > ${paintMsMax} ? reject(new Error('not painted: ' + document.body.innerText.slice(0, 400)))
      : requestAnimationFrame(look);
    look();
  })`);
}

/** In a browser that has nothing of the pages yet but the session, and again where it has them. */
async function firstPaints(browser: Browser, signedIn: BrowserContext, baseURL: string) {
  const storageState = await signedIn.storageState();
  const [first, again]: [number[], number[]] = [[], []];
  for (let n = 0; n < samples / 2; n++) {
    const context = await browser.newContext({ baseURL, storageState, viewport });
    const page = await context.newPage();
    for (const times of [first, again]) {
      await page.goto('/gateways', { waitUntil: 'commit' });
      times.push(await gatewaysPainted(page));
    }
    await context.close();
  }
  return { first, again };
}

/** ms from the move until the page of that position was painted. */
async function travelled(page: Page, path: string, head: number): Promise<number[]> {
  await page.goto(path);
  await settled(page);
  await pageUntil(page, `document.querySelector('input[aria-label="Position"]').max >= ${head}`);
  const times: number[] = [];
  for (let n = 0; n < samples; n++) {
    const position = 5000 + ((n * 7919 * 13) % (head - 5000));
    times.push(
      await page.evaluate<number>(`new Promise((resolve, reject) => {
        const slider = document.querySelector('input[aria-label="Position"]');
        const began = performance.now();
        slider.value = '${position}';
        slider.dispatchEvent(new Event('input', { bubbles: true }));
        const isThere = () => new URL(location.href).searchParams.get('at') === '${position}' &&
          !document.querySelector('.loading, [aria-busy=true]') && document.querySelector('tbody tr, .tile');
        const fail = () => reject(new Error(
          location.search + ' is not shown: ' + document.querySelector('main').innerText.slice(0, 400)));
        const look = () => isThere() ? requestAnimationFrame(() => resolve(performance.now() - began))
          : performance.now() - began > ${paintMsMax} ? fail() : requestAnimationFrame(look);
        requestAnimationFrame(look);
      })`),
    );
  }
  return times;
}

/** What the tab holds after a collection; the nodes with those that are in no document. */
async function held(page: Page) {
  const session = await page.context().newCDPSession(page);
  await session.send('HeapProfiler.enable');
  await session.send('HeapProfiler.collectGarbage');
  const { usedSize } = await session.send('Runtime.getHeapUsage');
  const { nodes, jsEventListeners: listeners } = await session.send('Memory.getDOMCounters');
  await session.detach();
  return { heapMegabytes: megabytes(usedSize), nodes, listeners };
}

const spread = (times: readonly number[]) => ({ p50: percentile(times, 0.5), p95: percentile(times, 0.95) });
const megabytes = (bytes: number): number => Math.round(bytes / 1e5) / 10;

async function tailBegun(page: Page): Promise<void> {
  await page.goto('/events');
  await page.getByRole('list', { name: 'Events' }).waitFor();
  await pageUntil(page, `document.querySelectorAll('ol.events > li').length === 200`);
}

async function tailReached(page: Page, position: number): Promise<void> {
  // A checkpoint may be above it.
  const first = `document.querySelector('ol.events .event-position').textContent.replaceAll(',', '')`;
  await pageUntil(page, `Number(${first}) >= ${position}`);
}

async function tailed(page: Page, fleet: LargeFleet) {
  await tailBegun(page);
  const before = await held(page);
  const beganMs = performance.now();
  const { done, head } = await fleet.command(Number(values.events), commandsMsMax);
  await tailReached(page, head);
  const seconds = Math.round((performance.now() - beganMs) / 1000);
  return { before, after: await held(page), tail: { events: done, seconds, head } };
}

/** A tail at a steady rate, and what the tab holds every few minutes. */
async function followed(page: Page, fleet: LargeFleet, minutes: number) {
  await tailBegun(page);
  const table: Record<string, object> = { 'minute 0': await held(page) };
  const beganMs = performance.now();
  let events = 0;
  for (let second = 1; second <= minutes * 60; second++) {
    const { done, head } = await fleet.command(eventsPerSecond, commandsMsMax);
    events += done;
    if (second % (sampleEveryMinutes * 60) === 0) {
      // A session that nobody uses for an hour ends.
      if (!(await page.evaluate<boolean>(`fetch('/api/me').then(({ ok }) => ok)`)))
        throw new Error('signed out');
      await tailReached(page, head);
      const rows = await page.locator('ol.events > li').count();
      table[`minute ${second / 60}`] = { ...(await held(page)), rows, events };
      console.log(`minute ${second / 60}: ${JSON.stringify(table[`minute ${second / 60}`])}`);
    }
    const restMs = beganMs + second * 1000 - performance.now();
    await new Promise((resolve) => setTimeout(resolve, restMs));
  }
  return table;
}

/** One line for each phase, so that a slow one shows. */
async function phase<T>(name: string, work: () => Promise<T>): Promise<T> {
  const beganMs = performance.now();
  const result = await work();
  console.log(`${name}: ${((performance.now() - beganMs) / 1000).toFixed(1)} s`);
  return result;
}

async function measure(browser: Browser, fleet: LargeFleet): Promise<object> {
  const context = await browser.newContext({ baseURL: fleet.console, viewport });
  const page = await context.newPage();
  await phase('signed in', () => signIn(page, fleet.operatorToken));
  const figures: Record<string, object> = {};
  if (isWanted('pages')) Object.assign(figures, await phase('pages', () => pageCosts(page)));
  await phase('the history is written', () => fleet.historyReached());
  if (isWanted('paint')) {
    const paints = await phase('first paints', () => firstPaints(browser, context, fleet.console));
    figures['gatewaysPaintedFirstMs'] = spread(paints.first);
    figures['gatewaysPaintedAgainMs'] = spread(paints.again);
  }
  if (isWanted('travel'))
    for (const path of ['/nodes', '/keys?org=org-1', '/keys'])
      figures[`travelMs ${path}`] = spread(
        await phase(`time bar on ${path}`, () => travelled(page, path, fleet.head)),
      );
  const tail = (): Promise<object> =>
    values.minutes === undefined ? tailed(page, fleet) : followed(page, fleet, Number(values.minutes));
  if (isWanted('tail')) Object.assign(figures, await phase('tail', tail));
  return figures;
}

// First, because a machine without a browser would leave a fleet behind.
const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });
const beganMs = performance.now();
const fleet = await LargeFleet.start();
console.log(`the fleet is there after ${Math.round((performance.now() - beganMs) / 1000)} s`);
try {
  const figures = await measure(browser, fleet);
  console.table(figures);
  console.log(JSON.stringify(figures));
} finally {
  await browser.close();
  await fleet.close();
}
