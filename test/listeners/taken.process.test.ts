/**
 * Tests that a process that cannot open a listener or use an option ends at once and names the option to change. Listeners
 * and options are read from each process's own declarations, so new ones are covered automatically.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command, type Option } from 'commander';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { controlPlaneCommand } from '../../cli/processes/control-plane.ts';
import { gatewayCommand } from '../../cli/processes/gateway.ts';
import { nodeAgentCommand } from '../../cli/processes/node-agent.ts';
import { simNodeCommand } from '../../cli/processes/sim-node.ts';
import { devCommand } from '../../tools/dev/dev.ts';
import { scaledMs } from '../support/budget.ts';
import { type CommandRun, runCommand } from '../support/commands.ts';
import { binary, type Launch, startProcess } from '../support/processes.ts';

const dir = mkdtempSync(join(tmpdir(), 'headgate-taken-'));
const log = `sqlite:${join(dir, 'log')}`;
const program = new Command();
for (const register of [controlPlaneCommand, gatewayCommand, nodeAgentCommand, simNodeCommand, devCommand])
  register(program);
const declared = Object.fromEntries(program.commands.map((one) => [one.name(), one.options]));

const fleetFile = join(dir, 'fleet.json');
const tokens = {
  HEADGATE_OPERATOR_TOKEN: 'taken-test-operator-token',
  HEADGATE_GATEWAY_TOKEN: 'taken-test-gateway-token',
  HEADGATE_NODE_TOKEN: 'taken-test-node-token-0001',
};
/** Arguments that each process needs to start. */
const needed: Readonly<Record<string, readonly string[]>> = {
  'control-plane': ['--log', log, '--data', join(dir, 'plane')],
  gateway: ['--log', log, '--data', join(dir, 'gateway')],
  'node-agent': ['--control-plane', 'http://127.0.0.1:9', '--node', 'n', '--engine', 'http://127.0.0.1:9'],
  'sim-node': [],
  dev: ['--data', join(dir, 'dev')],
};

let taken: Server;
let port: number;
let plane: Launch<unknown>;
beforeAll(async () => {
  const stacks = [{ id: 'stk-amber-otter-9k2f', surface: 'openai', models: [] }];
  writeFileSync(
    fleetFile,
    JSON.stringify({ version: 1, organisations: [{ id: 'acme', name: 'A', stacks }] }),
  );
  taken = createServer();
  await new Promise<void>((resolve) => void taken.listen(0, '127.0.0.1', resolve));
  port = (taken.address() as { port: number }).port;
  const args = ['control-plane', '--log', log, '--data', join(dir, 'first')];
  const free = ['--port', '0', '--metrics-port', '0'];
  plane = await startProcess({ dir, name: 'first', args: [...args, ...free], env: tokens });
});
afterAll(async () => {
  await plane.end('SIGKILL');
  taken.close();
  rmSync(dir, { recursive: true, force: true });
});

function argsOf(name: string, more: readonly string[]): string[] {
  const ports = (declared[name] ?? []).flatMap(({ long }) =>
    long?.endsWith('-port') && long !== '--stack-port' ? [long, '0'] : [],
  );
  const port0 = declared[name]?.some(({ long }) => long === '--port') ? ['--port', '0'] : [];
  return [name, ...(needed[name] ?? []), ...ports, ...port0, ...more];
}

const run = (
  name: string,
  more: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<CommandRun> =>
  runCommand(argsOf(name, more), { env: { HEADGATE_LOG_LEVEL: 'fatal', ...tokens, ...env }, cwd: dir });

const isPort = ({ long }: Option): boolean => /-port$|^--port$/.test(long ?? '');
const listeners = Object.entries(declared).flatMap(([name, options]) =>
  options.filter(isPort).map(({ long = '' }) => [name, long ?? ''] as const),
);

describe('each listener of each process', () => {
  test.each(listeners)(
    '%s %s: if the port is taken, the process exits 1 and names the option',
    async (name, flag) => {
      const value = flag === '--stack-port' ? `stk-amber-otter-9k2f=${port}` : String(port);
      const { code, stderr } = await run(name, [flag, value]);
      expect(stderr).toContain(`another process uses 127.0.0.1:${port}`);
      expect(stderr).toContain(`choose another port with ${flag}\n`);
      expect(code).toBe(1);
    },
  );
});

/**
 * Option of the file that is written once all listeners are open. If it cannot be written, the process must end to close the
 * listeners.
 */
const readyFile = '--ready-file';
/** An invalid value for each option that does not accept any text. */
const bad: Readonly<Record<string, string>> = {
  '--log': 'zzz:foo',
  '--control-plane': 'foo',
  '--console-url': 'foo',
  '--api-url': 'foo',
  '--oidc-issuer': 'foo',
  '--engine': 'foo',
  '--node': 'foo',
  '--name': ' \u0001',
  '--bind': 'no-address.invalid',
  '--metrics-bind': 'no-address.invalid',
  '--trusted-proxies': 'foo',
  '--trust-signer': 'foo',
  '--oidc-client-id': ' ',
  '--oidc-client-secret-file': ' ',
  '--oidc-operator-group': ' ',
  '--node-credentials': ' ',
  '--credential': 'none',
  '--tls-cert': '/nowhere/cert.pem',
  '--tls-key': '/nowhere/key.pem',
  '--fleet': '/nowhere/fleet.json',
  '--data': '/dev/null/data',
  '--stack-port': 'stk',
};
/** Options that accept any text. */
const free = new Set([
  '--shared-host',
  '--stack-domain',
  '--console-host',
  '--play-host',
  '--models',
  '--lora-folder',
  '--gateway-tls-name',
]);
/** Whether an option accepts any text. An agent's `--node` does here, because only the control plane checks the name. */
const isFree = (name: string, flag: string): boolean =>
  free.has(flag) || flag === readyFile || (name === 'node-agent' && flag === '--node');

const valued = Object.entries(declared).flatMap(([name, options]) =>
  options
    .filter(({ required, long }) => required && !isFree(name, long ?? ''))
    .map(({ long }) => [name, long ?? ''] as const),
);

describe('each option with a value', () => {
  test.each(valued)(
    '%s %s: a bad value ends the process with 1 or 2, and the option is named',
    async (name, flag) => {
      const { code, stderr } = await run(name, [flag, bad[flag] ?? 'zzz!']);
      expect([1, 2]).toContain(code);
      // The log's address may contain a password, so the error describes the option without quoting its value.
      expect(stderr).toContain(flag === '--log' ? 'the log address' : flag);
    },
  );

  test.each(Object.keys(declared))('%s: a bad --ready-file ends a process that has started', (name) => {
    const { status, stderr } = spawnSync(
      process.execPath,
      [binary, ...argsOf(name, [readyFile, '/dev/null/ready.json'])],
      {
        env: { ...process.env, HEADGATE_LOG_LEVEL: 'fatal', ...tokens },
        timeout: scaledMs(60_000),
        encoding: 'utf8',
      },
    );
    expect([1, 2]).toContain(status);
    expect(stderr).toContain(readyFile);
  });

  test.each(Object.keys(declared))('%s: a bad HEADGATE_LOG_LEVEL names the choices', async (name) => {
    const { code, stderr } = await run(name, [], { HEADGATE_LOG_LEVEL: 'zzz' });
    expect(stderr).toContain(
      'HEADGATE_LOG_LEVEL must be one of trace, debug, info, warn, error, fatal, silent',
    );
    expect(code).toBe(2);
  });
});
