/** Tests two instances of `headgate dev` on one machine, and which processes and files remain after one of them has ended. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, onTestFinished, test } from 'vitest';
import { DevAdmin } from '../../tools/dev/dev-admin.ts';
import { model, organisation, smallFleet, statusWith } from '../support/process-fleet.ts';
import { type Launch, startProcess } from '../support/processes.ts';
import { until } from '../support/until.ts';

interface Dev {
  readonly admin: string;
  readonly operatorToken: string;
  readonly console: { readonly url: string };
  readonly gateways: readonly { readonly api: string; readonly metrics: string; readonly play?: string }[];
  readonly stacks: readonly { readonly url: string }[];
  readonly pids: Readonly<Record<string, number>>;
}

const dir = mkdtempSync(join(tmpdir(), 'headgate-dev-twice-'));
const running: Launch<Dev>[] = [];
afterAll(async () => {
  for (const one of running) await one.end('SIGKILL');
  rmSync(dir, { recursive: true, force: true });
});

function isFree(port: number): Promise<boolean> {
  const server = createServer();
  return new Promise((resolve) => {
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}

/**
 * Finds a base port such that all ports that a fleet derives from it are free, and also those of a second fleet a hundred
 * above.
 */
async function freeBase(): Promise<number> {
  const offsets = [0, 1, 2, 3, 10, 13, 21, 22, 1384, 1385, 1386];
  for (;;) {
    const base = 20_000 + Math.floor(Math.random() * 10_000);
    const ports = offsets.flatMap((offset) => [base + offset, base + 100 + offset]);
    if ((await Promise.all(ports.map(isFree))).every(Boolean)) return base;
  }
}

async function startDev(name: string, ...more: string[]): Promise<Launch<Dev>> {
  const data = join(dir, name);
  mkdirSync(data, { recursive: true });
  const env = {
    HEADGATE_GATEWAY_TOKEN: undefined,
    HEADGATE_OPERATOR_TOKEN: undefined,
    HEADGATE_CONTEXT: join(data, 'context.json'),
  };
  const args = ['dev', '--data', data, ...more];
  const started = await startProcess<Dev>({ dir, name, args, env, timeoutMs: 120_000 });
  running.push(started);
  return started;
}

const portOf = (url = ''): number => Number(new URL(url).port);

test('a second fleet needs only another --port, and each serves its own requests', async () => {
  const base = await freeBase();
  const first = await startDev('first', '--port', String(base));
  const second = await startDev('second', '--port', String(base + 100));
  for (const [{ ready, child }, port] of [
    [first, base],
    [second, base + 100],
  ] as const) {
    const [gateway, other] = ready.gateways;
    const ports = [gateway?.api, ready.admin, ready.console.url, gateway?.play, other?.api].map(portOf);
    expect(ports.map((each) => each - port)).toEqual([0, 1, 2, 3, 10]);
    expect(ready.stacks.map(({ url }) => portOf(url) - port)).toEqual([21, 22]);
    expect(ready.gateways.map(({ metrics }) => portOf(metrics) - port)).toEqual([1385, 1386]);
    for (const { metrics } of ready.gateways)
      expect((await fetch(new URL('/readyz', metrics))).status).toBe(200);
    expect(child.exitCode).toBeNull();
  }
}, 240_000);

/** Whether the process has ended; also true for a zombie. */
function hasEnded(pid: number): boolean {
  try {
    return /^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return true;
  }
}

test.each(['SIGTERM', 'SIGKILL'] as const)(
  'after %s, none of dev’s processes remains',
  async (signal) => {
    const dev = running.shift();
    const pids = Object.values(dev?.ready.pids ?? {});
    expect(pids.length).toBeGreaterThanOrEqual(2);
    await dev?.end(signal);
    await until(() => pids.every(hasEnded), 60_000);
  },
  180_000,
);

test('a fleet file that refuses what was served in the last hour is still applied at the next start', async () => {
  const args = ['sim-node', '--port', '0', '--tokens-per-second', '0'];
  const node = await startProcess<{ url: string }>({ dir, name: 'node', args });
  onTestFinished(() => node.end());
  const path = join(dir, 'fleet.json');
  const start = (models: string[]): Promise<Launch<Dev>> => {
    writeFileSync(path, JSON.stringify({ ...smallFleet(node.ready.url), tiers: [{ id: 'Wide', models }] }));
    return startDev('third', '--port', '0', '--fleet', path);
  };
  const { ready, end } = await start([model]);
  const admin = new DevAdmin(ready.admin, ready.operatorToken);
  const { value } = await admin.createKey(organisation, 'k');
  const statusNow = (): Promise<number> => statusWith(ready.gateways[0]?.api ?? '', value);
  await until(async () => (await statusNow()) === 200);
  for (let n = 0; n < 100; n++) expect(await statusNow()).toBe(200);
  await until(async () => {
    const { steps } = await admin.run('traffic.get');
    return steps.reduce((sum, { requestsPerSecond }) => sum + 10 * requestsPerSecond, 0) > 100;
  }, 60_000);
  await end('SIGKILL');
  const again = await start([]);
  expect(await statusWith(again.ready.gateways[0]?.api ?? '', value)).toBe(403);
}, 240_000);
