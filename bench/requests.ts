/**
 * The console's page of requests while gateways are busy: four gateways (BENCH_GATEWAYS) serve together
 * BENCH_REQUESTS_PER_SECOND (500) requests, in turns without and with the page open. Of each turn the processor time of the
 * gateways a request; of those with the page how long after its end each row that was drawn was there, and the frames a
 * second, next to those of the same page while it is paused.
 */
import { chromium, type Page } from 'playwright-core';
import { sleep } from '../shared/runtime/retry.ts';
import { operatorToken, ProcessFleet } from '../test/support/process-fleet.ts';
import { signIn } from './support/console/seen-page.ts';
import { threadMicroseconds } from './support/cpu.ts';
import { atRate, type Target } from './support/load.ts';

const gatewayCount = Number(process.env['BENCH_GATEWAYS'] ?? 4);
const requestsPerSecond = Number(process.env['BENCH_REQUESTS_PER_SECOND'] ?? 500);
const rounds = Number(process.env['BENCH_ROUNDS'] ?? 5);
const turnSeconds = Number(process.env['BENCH_SECONDS'] ?? 10);
const warmUpSeconds = 2 * turnSeconds;

/** Notes in the page how old each row is when it is painted, ms, and counts frames. */
const watch = `(() => {
  const seen = new Set();
  const noted = window.noted = { ages: [], frames: 0, sinceMs: performance.now() };
  const look = () => {
    noted.frames++;
    for (const row of document.querySelectorAll('.requests tbody tr')) {
      const name = row.querySelector('.row-link')?.title;
      if (name === undefined || seen.has(name)) continue;
      seen.add(name);
      const [, took = 0, unit] = /end after ([\\d.,]+) (m?s)/.exec(row.querySelector('.times [title]')?.title) ?? [];
      const endedMs = Date.parse(row.querySelector('time').dateTime) + took * (unit === 's' ? 1000 : 1);
      noted.ages.push(performance.timeOrigin + performance.now() - endedMs);
    }
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
})()`;

interface Noted {
  readonly ages: number[];
  readonly frames: number;
  readonly seconds: number;
}

/** What was noted since the last time. */
function noted(page: Page): Promise<Noted> {
  return page.evaluate<Noted>(`(() => {
    const { ages, frames, sinceMs } = window.noted;
    const nowMs = performance.now();
    Object.assign(window.noted, { ages: [], frames: 0, sinceMs: nowMs });
    return { ages, frames, seconds: (nowMs - sinceMs) / 1000 };
  })()`);
}

function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

const median = (values: readonly number[]): number => quantile(values, 0.5);
const rounded = (value: number): number => Math.round(value * 10) / 10;

interface Turn {
  /** Processor time of all gateways for a request, µs. */
  readonly micros: number;
  readonly failures: number;
}

async function turn(targets: readonly Target[], pids: readonly number[], seconds: number): Promise<Turn> {
  const spent = (): number => pids.reduce((sum, pid) => sum + threadMicroseconds(pid), 0);
  const before = spent();
  const perSecond = Math.round(requestsPerSecond / targets.length);
  const done = await Promise.all(targets.map((target) => atRate(target, perSecond, seconds)));
  const requests = done.reduce((sum, each) => sum + each.requests, 0);
  return {
    micros: (spent() - before) / requests,
    failures: done.reduce((sum, { failures }) => sum + failures, 0),
  };
}

async function measure(page: Page, targets: readonly Target[], pids: readonly number[]) {
  const shares: number[] = [];
  const micros: Record<'without' | 'with', number[]> = { without: [], with: [] };
  const [ages, frames, pausedFrames]: [number[], number[], number[]] = [[], [], []];
  let failures = 0;
  await turn(targets, pids, warmUpSeconds);
  for (let round = 0; round < rounds; round++) {
    await page.goto('/doctor');
    const alone = await turn(targets, pids, turnSeconds);
    await page.goto('/requests');
    await page
      .locator('.follow-line')
      .getByText(/following$/)
      .waitFor();
    await page.evaluate(watch);
    await sleep(1000);
    await noted(page);
    const followed = await turn(targets, pids, turnSeconds);
    const { ages: shown, ...counted } = await noted(page);
    await page.getByRole('button', { name: 'Pause', exact: true }).click();
    await noted(page);
    const paused = await turn(targets, pids, turnSeconds / 2);
    const still = await noted(page);
    micros.without.push(alone.micros);
    micros.with.push(followed.micros);
    shares.push((followed.micros / alone.micros - 1) * 100);
    for (const age of shown) ages.push(age);
    frames.push(counted.frames / counted.seconds);
    pausedFrames.push(still.frames / still.seconds);
    failures += alone.failures + followed.failures + paused.failures;
  }
  return {
    'µs a request, without': rounded(median(micros.without)),
    'µs a request, with the page': rounded(median(micros.with)),
    'more, %, median of rounds': rounded(median(shares)),
    'rows drawn a second': rounded(ages.length / (rounds * turnSeconds)),
    'shown after, p50 ms': rounded(quantile(ages, 0.5)),
    'shown after, p95 ms': rounded(quantile(ages, 0.95)),
    'frames a second': rounded(median(frames)),
    'frames a second, paused': rounded(median(pausedFrames)),
    failures,
  };
}

// First, because a machine without a browser would leave a fleet behind.
const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });
const fleet = new ProcessFleet();
try {
  const { plane, gateway, key } = await fleet.stand({ plane: { flags: ['--console-port', '0'] } });
  const others = Array.from({ length: gatewayCount - 1 }, (_, at) => fleet.startGateway(`gateway-${at + 2}`));
  const gateways = [gateway, ...(await Promise.all(others))];
  await sleep(2000);
  const targets = gateways.map(({ ready: { api } }): Target => {
    const { port, host, pathname } = new URL(`${api}/chat/completions`);
    const body = JSON.stringify({ model: 'echo-small', messages: [{ role: 'user', content: 'hello' }] });
    return { port: Number(port), path: pathname, host, headers: { authorization: `Bearer ${key}` }, body };
  });
  const { console: baseURL } = plane.ready as unknown as { readonly console: string };
  const page = await browser.newPage({ baseURL, viewport: { width: 1280, height: 900 } });
  await signIn(page, operatorToken);
  const pids = gateways.map(({ ready }) => ready.pid);
  const figures = await measure(page, targets, pids);
  console.table(figures);
  console.log(JSON.stringify(figures));
} finally {
  await browser.close();
  await fleet.close();
}
