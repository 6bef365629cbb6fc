/**
 * docs/a-request.md and docs/an-event.md are true: a request and an event pass through real processes, and what the pages say of
 * their way is compared with the functions that were called.
 */
import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { scaledMs } from './support/budget.ts';
import { operatorToken, organisation, ProcessFleet, statusWith } from './support/process-fleet.ts';
import { recordedBuild } from './support/recorded-build.ts';
import { roadPage } from './support/road-pages.ts';

interface Call {
  readonly at: number;
  readonly pid: number;
  /** `file#function` */
  readonly name: string;
}

const pages = { request: roadPage('docs/a-request.md'), event: roadPage('docs/an-event.md') };

/** The rooms in which a road passes no file that its page does not name. */
const rooms = {
  request: ['data-plane/', 'shared/decision/'],
  event: [
    'admin-client/',
    'control-plane/',
    'data-plane/snapshot/',
    'shared/log/',
    'shared/snapshot/',
    'shared/status/',
  ],
};

/** What processes do by themselves, they do in this time. */
const idleMs = 3000;
/** Called by what comes each ten seconds, so too seldom to be seen while nothing happens: the report of traffic. */
const reports = ['control-plane/gateways/open-fleet.ts', 'control-plane/gateways/fleet-traffic.ts'];

const folder = mkdtempSync(join(tmpdir(), 'headgate-roads-'));
const callsOf = { request: [] as Call[], event: [] as Call[] };
let idle: Set<string>;

const now = (): number => Number(process.hrtime.bigint());

function callsSince(from: number): Call[] {
  const files = readdirSync(folder).filter((name) => name.endsWith('.calls'));
  const calls = files.flatMap((file) => {
    const lines = readFileSync(join(folder, file), 'utf8').trim().split('\n');
    return lines.map((line) => {
      const [at, name = ''] = line.split(' ');
      return { at: Number(at), pid: Number.parseInt(file, 10), name };
    });
  });
  return calls.filter(({ at }) => at >= from).sort((a, b) => a.at - b.at);
}

/** The calls of a road once all functions of its page were called, or time is over. */
async function walked(page: keyof typeof pages, from: number): Promise<Call[]> {
  const untilMs = performance.now() + scaledMs(10_000);
  for (;;) {
    await setTimeout(200);
    const calls = callsSince(from);
    const names = new Set(calls.map(({ name }) => name));
    if (pages[page].functions.every((name) => names.has(name)) || performance.now() > untilMs) return calls;
  }
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
    await setTimeout(idleMs);
    idle = new Set(callsSince(0).map(({ pid, name }) => `${pid} ${name}`));

    const asked = now();
    expect(await statusWith(gateway.ready.api, key)).toBe(200);
    const ofGateway = ({ pid }: Call): boolean => pid === gateway.ready.pid;
    callsOf.request = (await walked('request', asked)).filter(ofGateway);

    const revoking = now();
    const args = [build, 'key', 'revoke', revoked.id, '--yes', '--wait'];
    const own = { HEADGATE_ADMIN: plane.ready.admin, HEADGATE_TOKEN: operatorToken };
    await promisify(execFile)(process.execPath, args, { env: { ...process.env, ...fleet.env, ...own } });
    expect(await statusWith(gateway.ready.api, revoked.value)).toBe(401);
    callsOf.event = await walked('event', revoking);
  } finally {
    await fleet.close();
  }
}, scaledMs(180_000));

afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe.each(['request', 'event'] as const)('the road of the %s', (road) => {
  test('passes the functions that its page names, in this order', () => {
    const calls = callsOf[road];
    let at = -1;
    const passed = pages[road].functions.filter((name) => {
      const next = calls.findIndex((call, index) => index > at && call.name === name);
      if (next !== -1) at = next;
      return next !== -1;
    });
    expect(passed).toEqual(pages[road].functions);
  });

  test('passes no other file of its rooms than those that its page names', () => {
    const caused = callsOf[road].filter(({ pid, name }) => !idle.has(`${pid} ${name}`));
    const files = new Set(caused.map(({ name }) => name.replace(/#.*/, '')));
    const unnamed = [...files].filter(
      (file) =>
        rooms[road].some((room) => file.startsWith(room)) &&
        ![...pages[road].files, ...reports].includes(file),
    );
    expect(unnamed).toEqual([]);
  });
});
