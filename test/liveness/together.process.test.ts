/**
 * Starts several gateways at the same moment on one machine, on a log that does not exist yet. Each must serve or exit with
 * one error that names its cause, for example that the system refuses to start another thread.
 */
import { spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, afterEach, beforeEach, expect, test } from 'vitest';
import { type Launch, startProcess } from '../support/processes.ts';
import { health } from './clients.ts';

const root = mkdtempSync(join(tmpdir(), 'headgate-together-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

let dir: string;
const running: Launch<{ metrics: string }>[] = [];
beforeEach(() => {
  dir = mkdtempSync(join(root, 'case-'));
});
afterEach(async () => {
  await Promise.all(running.splice(0).map((one) => one.end('SIGKILL')));
});

const argsOf = (name: string): string[] => [
  ...['gateway', '--log', `sqlite:${dir}/log`, '--data', join(dir, name), '--name', name],
  ...['--port', '0', '--metrics-port', '0', '--drain-timeout', '1'],
];

async function start(name: string, nodeOptions: string): Promise<void> {
  const env = nodeOptions === '' ? {} : { NODE_OPTIONS: nodeOptions };
  const args = argsOf(name);
  running.push(await startProcess({ dir, name, args, env, timeoutMs: 90_000 }));
}

test.each(['', '--max-semi-space-size=32'])(
  'seven gateways that start together on an empty folder all serve (NODE_OPTIONS: %j)',
  async (nodeOptions) => {
    const names = ['gw-1', 'gw-2', 'gw-3', 'gw-4', 'gw-5', 'gw-6', 'gw-7'];
    await Promise.all(names.map((name) => start(name, nodeOptions)));
    for (const { ready, child } of running) {
      expect((await health(ready.metrics, '/livez')).status).toBe(200);
      expect([child.exitCode, child.signalCode]).toEqual([null, null]);
    }
    const ends = await Promise.all(
      running.map(async (one) => {
        await one.end('SIGTERM');
        return [one.child.exitCode, one.stderr().match(/"level":60/)];
      }),
    );
    expect(ends).toEqual(names.map(() => [0, null]));
  },
);

/** Id of a user without other processes, so that a limit on the user's processes counts only the gateway's threads. */
const user = '54321';
const limited = (threads: number) => [
  ...['--reuid', user, '--regid', user, '--clear-groups', 'prlimit', `--nproc=${threads}:${threads}`],
];
const canLimit = process.getuid?.() === 0 && spawnSync('setpriv', [...limited(50), 'true']).status === 0;
if (!canLimit)
  process.stderr.write('SKIPPED: threads cannot be limited here, so no failed start of one is tested\n');

test.runIf(canLimit)(
  'a gateway that gets no thread for its usage worker ends with an error that says so',
  () => {
    const binary = new URL('../../dist/cli/headgate.js', import.meta.url).pathname;
    // The parent folders are private to their owner, so make them accessible to the other user.
    for (const folder of [dirname(root), root]) chmodSync(folder, 0o777);
    chmodSync(dir, 0o777);
    const seen: (string | number | null)[] = [];
    // How many threads Node.js starts depends on its version and on the machine. One of these limits leaves no thread for the
    // worker.
    for (const threads of [11, 10, 12, 9, 13, 14, 8, 7, 15, 6, 16]) {
      const name = `gw-${threads}`;
      const args = [
        ...limited(threads),
        process.execPath,
        binary,
        ...argsOf(name),
        '--ready-file',
        join(dir, `${name}.json`),
      ];
      const { stderr, status, signal } = spawnSync('setpriv', args, {
        env: {
          HEADGATE_GATEWAY_TOKEN: 'gateway-token-of-the-tests',
          HEADGATE_LOG_LEVEL: 'warn',
          PATH: process.env['PATH'],
        },
        encoding: 'utf8',
        timeout: 10_000,
      });
      seen.push(status, signal);
      // Skips limits that are too low, because Node.js aborts if it cannot start its own threads, and limits that are high
      // enough, because the gateway then serves until the time is up.
      if (status === 134 || signal === 'SIGABRT' || status === 0) continue;
      expect([status, stderr]).toEqual([
        1,
        expect.stringMatching(
          /^error\[Failure\]: the usage worker could not be started \(ERR_WORKER_INIT_FAILED EAGAIN\): .*raise its process and memory limits/m,
        ),
      ]);
      return;
    }
    throw new Error(`no start was refused a thread: ${seen.join(' ')}`);
  },
);
