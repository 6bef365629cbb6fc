/**
 * Checks docs/a-request.md and docs/an-event.md. A request and an event must pass through the files of the twelve steps in
 * the documented order.
 */
import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { scaledMs } from './support/budget.ts';
import { operatorToken, organisation, ProcessFleet, statusWith } from './support/process-fleet.ts';
import { recordedBuild } from './support/recorded-build.ts';

/** Returns the file that each step described on a page of the documentation names. */
function stepsOf(page: string): string[] {
  const text = readFileSync(new URL(`../docs/${page}`, import.meta.url), 'utf8');
  return [...text.matchAll(/^\d+\. [^[]*\[[^\]]+\]\(\.\.\/([^)]+)\)/gm)].map(([, file = '']) => file);
}

const steps = { request: stepsOf('a-request.md'), event: stepsOf('an-event.md') };

const folder = mkdtempSync(join(tmpdir(), 'headgate-roads-'));
const passed = { request: [] as string[], event: [] as string[] };

const now = (): number => Number(process.hrtime.bigint());

/** Returns the files whose functions have been called since `from`, in the order of the calls. */
function filesSince(from: number): string[] {
  const files = readdirSync(folder).filter((name) => name.endsWith('.calls'));
  const calls = files.flatMap((file) => readFileSync(join(folder, file), 'utf8').trim().split('\n'));
  return calls
    .map((line) => ({ at: Number(line.split(' ')[0]), file: line.slice(line.indexOf(' ') + 1) }))
    .filter(({ at }) => at >= from)
    .sort((a, b) => a.at - b.at)
    .map(({ file }) => file);
}

/** Returns those of the expected steps that were passed in the expected order. */
function inOrder(expected: readonly string[], files: readonly string[]): string[] {
  let at = -1;
  return expected.filter((step) => {
    const next = files.indexOf(step, at + 1);
    if (next !== -1) at = next;
    return next !== -1;
  });
}

/** Waits until all steps have been passed or the time is up. */
async function walk(road: keyof typeof steps, from: number): Promise<void> {
  const untilMs = performance.now() + scaledMs(10_000);
  do {
    await setTimeout(200);
    passed[road] = inOrder(steps[road], filesSince(from));
  } while (passed[road].length < steps[road].length && performance.now() < untilMs);
}

beforeAll(async () => {
  const build = recordedBuild(join(folder, 'build'));
  const hook = new URL('./support/note-calls.mjs', import.meta.url).href;
  const env = { NODE_OPTIONS: `--import=${hook}`, HEADGATE_TEST_CALLS: folder };
  const fleet = new ProcessFleet({ timeoutMs: 60_000, env, build });
  try {
    const { plane, gateway, admin, key } = await fleet.stand();
    const revoked = await admin.createKey(organisation, 'r');
    writeFileSync(join(folder, 'begin'), '');
    for (const { pid } of [plane.ready, gateway.ready])
      await vi.waitUntil(() => existsSync(join(folder, `${pid}-0.calls`)), { timeout: scaledMs(10_000) });
    const asked = now();
    expect(await statusWith(gateway.ready.api, key)).toBe(200);
    await walk('request', asked);

    const revoking = now();
    const args = [build, 'key', 'revoke', revoked.id, '--yes', '--wait'];
    const own = { HEADGATE_ADMIN: plane.ready.admin, HEADGATE_TOKEN: operatorToken };
    await promisify(execFile)(process.execPath, args, { env: { ...process.env, ...fleet.env, ...own } });
    expect(await statusWith(gateway.ready.api, revoked.value)).toBe(401);
    await walk('event', revoking);
  } finally {
    await fleet.close();
  }
}, scaledMs(180_000));

afterAll(() => rmSync(folder, { recursive: true, force: true }));

test.each(['request', 'event'] as const)('the %s passes the files of its twelve steps in order', (road) => {
  expect(steps[road]).toHaveLength(12);
  expect(passed[road]).toEqual(steps[road]);
});
