/**
 * Tests processes on a full disk, simulated by a small in-memory file system. They must keep answering, report which files
 * they cannot write, and end on SIGTERM. Mounting requires root; without it, the tests are skipped with a message.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeEach, expect, test, vi } from 'vitest';
import { answerOfAdmin } from '../support/ask-admin.ts';
import {
  completion,
  type GatewayProcess,
  type More,
  operatorToken,
  ProcessFleet,
} from '../support/process-fleet.ts';
import { until } from '../support/until.ts';
import { CliProcess, endsInOrder, health, isFaulted, type Replica, rawTail } from './clients.ts';

const root = mkdtempSync(join(tmpdir(), 'headgate-full-disk-'));
const disk = join(root, 'disk');
mkdirSync(disk);
const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=24m', 'tmpfs', disk]).status === 0;
if (!mounted)
  process.stderr.write('SKIPPED: no file system can be mounted here, so no full disk is tested\n');
afterAll(() => {
  if (mounted) spawnSync('umount', ['-l', disk]);
  rmSync(root, { recursive: true, force: true });
});
const filler = join(disk, 'filler');

let fleet: ProcessFleet;
let dir: string;
const commands: CliProcess[] = [];
beforeEach(() => {
  fleet = new ProcessFleet();
  ({ dir } = fleet);
});
afterEach(async () => {
  for (const { child } of commands.splice(0)) child.kill('SIGKILL');
  await fleet.close();
  spawnSync('find', [disk, '-mindepth', '1', '-delete']);
});

const at = (log: string, data: string): More => ({ flags: ['--log', `sqlite:${log}`, '--data', data] });

function fill(left: number): void {
  const { bavail, bsize } = statfsSync(disk);
  try {
    writeFileSync(filler, Buffer.alloc(Math.max(0, bavail * bsize - left)));
  } catch (error) {
    // Another process has used some of the space meanwhile, so the disk is full anyway.
    if (!(error instanceof Error && 'code' in error && error.code === 'ENOSPC')) throw error;
  }
}

/** Creates organisations until a command fails, and returns the response to this command. */
async function untilRefused(replica: Replica): Promise<{ status: number; error: Record<string, unknown> }> {
  for (let n = 0; n < 5000; n++) {
    const made = { id: `org-${n}`, name: 'n'.repeat(200) };
    const { status, body } = await answerOfAdmin(replica.admin, '/organisations', { body: made });
    if (status !== 200) return { status, error: body['error'] as Record<string, unknown> };
  }
  throw new Error('the disk did not get full');
}

test.runIf(mounted)(
  'a control plane with a full data folder says so, decides nothing, and continues once there is room',
  async () => {
    const replica = await fleet.startPlane('cp', at(join(dir, 'log'), join(disk, 'cp')));
    fill(0);
    // The command is in the log, but this replica could not fold it.
    expect(await untilRefused(replica.ready)).toMatchObject({
      status: 503,
      error: { type: 'OutcomeUnknown' },
    });
    await isFaulted(replica.ready, /cannot write .*state\.db/);
    const { status, error } = await untilRefused(replica.ready);
    expect([status, error['type'], error['message']]).toEqual([
      503,
      'LogUnavailable',
      expect.stringContaining('cannot write'),
    ]);
    rmSync(filler);
    await until(async () => (await health(replica.ready.metrics, '/readyz')).status === 200, 30_000);
    await replica.admin.call('POST', '/organisations', { id: 'again', name: 'Again' });
    await endsInOrder(replica);
  },
);

test.runIf(mounted)(
  'a control plane with its log on a full disk refuses commands, keeps tails, and continues with room',
  async () => {
    const replica = await fleet.startPlane('cp', at(join(disk, 'log'), join(dir, 'cp')));
    const tail = await rawTail(replica.ready, operatorToken);
    fill(0);
    const { status, error } = await untilRefused(replica.ready);
    expect([status, error['type']]).toEqual([503, 'LogUnavailable']);
    expect(error['message']).toMatch(/cannot write/);
    expect((await health(replica.ready.metrics, '/livez')).status).toBe(200);
    const verbose = async (): Promise<string> =>
      (await health(replica.ready.metrics, '/readyz?verbose')).text;
    expect(await verbose()).toMatch(/^\[\+\]HG2017 fail .*nothing can be written to the log: cannot write/m);
    rmSync(filler);
    await replica.admin.call('POST', '/organisations', { id: 'again', name: 'Again' });
    await vi.waitFor(() => expect(tail.frames.at(-1)).toContain('"again"'));
    expect(await verbose()).not.toContain('HG2017');
    await endsInOrder(replica);
  },
);

/** Starts a gateway with its data folder on the small disk, and a node and a control plane elsewhere. */
async function servedFromDisk() {
  const { admin, key, gateway } = await fleet.stand({ gateway: onDisk });
  const ask = async ({ ready }: GatewayProcess): Promise<number> => {
    const response = await completion(ready.api, key, {}, { signal: AbortSignal.timeout(30_000) });
    await response.text();
    return response.status;
  };
  return { admin, gateway, ask };
}
const onDisk: More = { flags: ['--data', join(disk, 'gw')] };

test.runIf(mounted)(
  'requests answered on a full disk are billed, even if the gateway was killed before there was room',
  async () => {
    const { admin, gateway, ask } = await servedFromDisk();
    let answered = 0;
    const count = async (): Promise<number> => {
      const status = await ask(gateway);
      if (status === 200) answered++;
      return status;
    };
    await vi.waitFor(async () => expect(await count()).toBe(200), { timeout: 20_000, interval: 100 });
    fill(0);
    const before = answered;
    // The gateway answers until its database has been unable to write rows for some seconds. Until then, only the row log
    // contains these rows.
    await vi.waitFor(async () => expect(await count()).toBe(503), { timeout: 30_000, interval: 0 });
    expect(answered).toBeGreaterThan(before);
    await gateway.end('SIGKILL');
    rmSync(filler);
    const again = await fleet.startGateway('gateway-1', onDisk);
    await vi.waitFor(
      async () => {
        const { requests } = (await admin.call('GET', '/usage?organisation=acme')) as { requests: number };
        expect(requests).toBe(answered);
      },
      { timeout: 30_000, interval: 100 },
    );
    await endsInOrder(again);
  },
);

test.runIf(mounted)(
  'a gateway with a full data folder answers nothing that it could not bill, is not ready, and ends',
  async () => {
    const { gateway, ...served } = await servedFromDisk();
    const ask = (): Promise<number> => served.ask(gateway);
    await vi.waitFor(async () => expect(await ask()).toBe(200), { timeout: 20_000, interval: 100 });
    fill(0);
    await vi.waitFor(async () => expect(await ask()).toBe(503), { timeout: 30_000, interval: 0 });
    await vi.waitFor(
      async () => {
        const { status, text } = await health(gateway.ready.metrics, '/readyz');
        expect([status, text]).toEqual([
          503,
          expect.stringContaining('[-]usage no more usage can be stored'),
        ]);
      },
      { timeout: 20_000, interval: 50 },
    );
    rmSync(filler);
    await vi.waitFor(async () => expect(await ask()).toBe(200), { timeout: 30_000, interval: 100 });
    await endsInOrder(gateway);
  },
);

test.runIf(mounted)('a restore onto a log on a full disk can be interrupted', async () => {
  const replica = await fleet.startPlane('cp');
  const organisations = Array.from({ length: 1500 }, (_, n) => ({ id: `org-${n}`, name: 'n'.repeat(200) }));
  await fleet.admin(replica).apply({ version: 1, organisations });
  await replica.end();
  const copy = join(dir, 'copy');
  expect((await fleet.cli(['backup', copy, '--data', join(dir, 'cp')])).code).toBe(0);
  fill(150_000);
  const to = ['--log', `sqlite:${join(disk, 'new-log')}`, '--data', join(dir, 'cp-again')];
  const restore = new CliProcess(['backup', 'restore', copy, ...to, '--allow-unsigned', '--yes'], {});
  commands.push(restore);
  await vi.waitFor(() => expect(statfsSync(disk).bavail).toBeLessThan(20), { timeout: 20_000 });
  // After some time the command must still be running and must not have reported an error.
  const early = await Promise.race([
    restore.exitCode(),
    new Promise<'runs'>((resolve) => setTimeout(() => resolve('runs'), 1000)),
  ]);
  expect([early, restore.stderr]).toEqual(['runs', expect.not.stringContaining('error[')]);
  expect(await restore.interrupt()).toBe(130);
});
