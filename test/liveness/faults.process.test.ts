/**
 * Tests that a failing thread ends its process with one log line that names the failure and contains nothing from a request.
 * A gateway without its usage worker cannot bill, so it must end too.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { ProcessFleet } from '../support/process-fleet.ts';
import type { Launch } from '../support/processes.ts';

const preload = new URL('./fail-here.mjs', import.meta.url).href;
const secret = 'hg_secret-that-a-request-brought';

let fleet: ProcessFleet;
beforeEach(() => {
  fleet = new ProcessFleet({ timeoutMs: 60_000 });
});
afterEach(() => fleet.close());

const harmFile = (): string => join(fleet.dir, 'harm');

function start<Ready>(kind: string, thread: 'main' | 'worker', ...more: string[]): Promise<Launch<Ready>> {
  return fleet.start<Ready>(kind, [kind, ...more], {
    ...{ NODE_OPTIONS: `--import=${preload}`, FAIL_FILE: harmFile(), FAIL_THREAD: thread },
    HEADGATE_NODE_TOKEN: 'not-a-token-of-any-node',
    // `dev` must not get a log address, because it creates its own log.
    ...(kind === 'dev' && { HEADGATE_LOG: undefined }),
  });
}

const member = (kind: string): string[] => [
  ...['--data', join(fleet.dir, kind), '--name', kind, '--port', '0', '--metrics-port', '0'],
];
const argsOf: Readonly<Record<string, () => string[]>> = {
  'control-plane': () => member('control-plane'),
  gateway: () => member('gateway'),
  'node-agent': () => [
    ...['--control-plane', 'http://127.0.0.1:9', '--node', 'n', '--engine', 'http://127.0.0.1:9'],
    ...['--metrics-port', '0'],
  ],
  'sim-node': () => ['--port', '0'],
};

/** Waits until the process has ended without a signal from the test. */
async function exitOf({ child }: Launch<unknown>): Promise<number | null> {
  await vi.waitFor(() => expect(child.exitCode ?? child.signalCode).not.toBeNull(), { timeout: 30_000 });
  return child.exitCode;
}

/** A process whose shutdown never finishes. It gets its signal before all tests, because ending it takes longest. */
const stuck = { stderr: '', ended: Promise.resolve<readonly [code: unknown, ms: number]>([0, 0]) };
beforeAll(async () => {
  const shutdown = new URL('../../dist/cli/processes/shutdown.js', import.meta.url).href;
  const logger = new URL('../../dist/shared/runtime/logger.js', import.meta.url).href;
  const text = `
    const { closeOnSignal } = await import('${shutdown}');
    const { createLogger } = await import('${logger}');
    setInterval(() => undefined, 1000);
    closeOnSignal(createLogger('stuck', 'warn'), () => new Promise(() => undefined), 1);
    process.stdout.write('ready');`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', text], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  child.stderr.on('data', (chunk: Buffer) => {
    stuck.stderr += chunk.toString();
  });
  await once(child.stdout, 'data');
  const beganMs = performance.now();
  stuck.ended = once(child, 'close').then(([code]) => [code, performance.now() - beganMs]);
  child.kill('SIGTERM');
});

interface Line {
  readonly level: number;
  readonly msg: string;
  readonly exitCode?: number;
  readonly fault?: { readonly type: string; readonly at: readonly string[]; readonly message?: string };
}

/** Returns the fatal lines of the process's log. Every log line must be JSON. */
function fatalLines(process: Launch<unknown>): Line[] {
  const lines = process.stderr().trimEnd().split('\n');
  return lines.map((line) => JSON.parse(line) as Line).filter(({ level }) => level === 60);
}

/** Each kind of process with one fault, except for the kind that starts fastest, which has all faults. */
const faults = [
  ['sim-node', 'throw', 'TypeError'],
  ['sim-node', 'reject', 'SyntaxError'],
  ['sim-node', 'value', 'object'],
  ['node-agent', 'throw', 'TypeError'],
  ['gateway', 'reject', 'SyntaxError'],
  ['control-plane', 'value', 'object'],
] as const;

test.each(faults)(
  '%s: an unhandled %s ends the process with one line and no text from outside',
  async (kind, harm, type) => {
    const process = await start<unknown>(kind, 'main', ...(argsOf[kind]?.() ?? []));
    writeFileSync(harmFile(), harm);
    expect(await exitOf(process)).toBe(1);
    expect(fatalLines(process)).toEqual([
      expect.objectContaining({ exitCode: 1, fault: expect.objectContaining({ type }) }),
    ]);
    if (type !== 'object') expect(fatalLines(process)[0]?.fault?.at[0]).toContain('fail-here.mjs');
    expect(process.stderr()).not.toContain(secret);
  },
);

test.each([
  ['throw', /exit code 1: TypeError at .*fail-here\.mjs/],
  ['reject', /exit code 1: SyntaxError at .*fail-here\.mjs/],
  ['exit', /exit code 7: no reason given/],
])(
  'a gateway whose usage worker ends by %s ends with one line that gives the reason',
  async (harm, reason) => {
    const gateway = await start<{ metrics: string }>('gateway', 'worker', ...member('gateway'));
    writeFileSync(harmFile(), harm);
    expect(await exitOf(gateway)).toBe(1);
    const [line, ...more] = fatalLines(gateway);
    expect(more).toEqual([]);
    expect(line).toMatchObject({ exitCode: 1, fault: { type: 'UsageWorkerEnded' } });
    expect(line?.fault?.message).toMatch(reason);
    expect(gateway.stderr()).not.toContain(secret);
  },
);

test.each([
  ['throw', /the usage worker ended with exit code 1: TypeError/],
  ['exit', /the usage worker ended with exit code 7/],
])('a gateway whose usage worker ends by %s at its start names that in its error', async (harm, reason) => {
  writeFileSync(harmFile(), harm);
  const starting = start('gateway', 'worker', ...member('gateway'));
  await expect(starting).rejects.toThrow(reason);
  await expect(starting).rejects.not.toThrow(secret);
});

test('a gateway whose usage worker hangs ends at SIGTERM with a line that says so', async () => {
  const gateway = await start<{ metrics: string }>('gateway', 'worker', ...member('gateway'));
  writeFileSync(harmFile(), 'hang');
  await vi.waitFor(() => expect(existsSync(harmFile())).toBe(false));
  gateway.child.kill('SIGTERM');
  expect(await exitOf(gateway)).toBe(0);
  expect(gateway.stderr()).toContain('the usage worker did not close within 5000 ms');
});

test.each(['throw', 'reject'])(
  'an unhandled %s in dev ends it and its gateways with one line',
  async (harm) => {
    const dev = await start<{ gateways: { pid?: number }[] }>(
      'dev',
      'main',
      ...[
        '--data',
        join(fleet.dir, 'dev'),
        '--no-demo',
        '--gateways',
        '1',
        '--port',
        '0',
        '--admin-port',
        '0',
      ],
      ...['--metrics-port', '0'],
    );
    writeFileSync(harmFile(), `dev ${harm}`);
    expect(await exitOf(dev)).toBe(1);
    const [line, ...more] = fatalLines(dev).filter(({ fault }) => fault?.type !== undefined);
    expect(more).toEqual([]);
    expect(line).toMatchObject({ level: 60, exitCode: 1 });
    expect(line?.fault?.at[0]).toContain('fail-here.mjs');
    expect(dev.stderr()).not.toContain(secret);
  },
);

test('a process that does not close is ended 20 s after its configured time, with a line that says so', async () => {
  const [code, ms] = await stuck.ended;
  expect([code, stuck.stderr]).toEqual([1, expect.stringContaining('closing took too long: ending now')]);
  expect(stuck.stderr).toContain('"withinSeconds":21');
  // The process measures this time with its own clock, and a busy machine can only lengthen it.
  expect(ms).toBeGreaterThan(20_000);
});
