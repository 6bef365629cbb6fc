// Goal: no secret that is unset, empty, blank or too short opens anything; a start with one that is too short is refused.
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { type Started, startProcess } from '../support/processes.ts';

const binary = new URL('../../dist/cli/headgate.js', import.meta.url).pathname;
const root = mkdtempSync(join(tmpdir(), 'headgate-secrets-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const token = 'a-good-operator-token-1';
const gatewayToken = 'a-good-gateway-token-01';

type Environment = Readonly<Record<string, string>>;
const folder = (): string => mkdtempSync(join(root, 'case-'));
const free = ['--port', '0', '--metrics-port', '0'];
const plane = (dir: string): string[] => [
  ...['control-plane', '--log', `sqlite:${dir}/log`, '--data', `${dir}/cp`, '--name', 'cp'],
  ...free,
];
const dev = (dir: string): string[] => [
  ...['dev', '--data', `${dir}/dev`, '--no-demo', '--gateways', '0', '--admin-port', '0'],
  ...free,
];
const agent = (): string[] => [
  ...['node-agent', '--control-plane', 'http://127.0.0.1:9', '--node', 'n', '--engine', 'http://127.0.0.1:9'],
  ...['--metrics-port', '0'],
];
const gateway = (dir: string): string[] => [
  ...['gateway', '--log', `sqlite:${dir}/log`, '--data', `${dir}/gw`, '--name', 'gw'],
  ...free,
];

const commands = { 'control-plane': plane, dev, 'node-agent': agent, gateway };
const whatIsUnset = ['', ' ', '\t \n'];
const whatIsWeak = ['x', 'fifteen-letters'];

/** Runs to its end, which must come by itself. */
function refusal(args: readonly string[], env: Environment): string {
  const run = spawnSync(process.execPath, [binary, ...args], {
    env: { ...process.env, HEADGATE_LOG_LEVEL: 'fatal', ...env },
    timeout: 30_000,
    encoding: 'utf8',
  });
  expect(run.signal).toBeNull();
  expect(run.status).not.toBe(0);
  return run.stderr;
}

const weak = [
  ['control-plane', 'HEADGATE_OPERATOR_TOKEN'],
  ['control-plane', 'HEADGATE_GATEWAY_TOKEN'],
  ['dev', 'HEADGATE_OPERATOR_TOKEN'],
  ['dev', 'HEADGATE_GATEWAY_TOKEN'],
  ['gateway', 'HEADGATE_GATEWAY_TOKEN'],
  ['node-agent', 'HEADGATE_NODE_TOKEN'],
] as const;

test.each(weak)('%s refuses a %s that is too short, and does not repeat it', (command, variable) => {
  for (const value of whatIsWeak) {
    const stderr = refusal(commands[command](folder()), {
      HEADGATE_OPERATOR_TOKEN: token,
      [variable]: value,
    });
    expect(stderr).toContain(variable);
    expect(stderr).toMatch(/at least 16/);
    if (value.length > 1) expect(stderr).not.toContain(value);
  }
});

test.each([
  ['control-plane', 'HEADGATE_OPERATOR_TOKEN'],
  ['control-plane', 'HEADGATE_GATEWAY_TOKEN'],
  ['gateway', 'HEADGATE_GATEWAY_TOKEN'],
  ['node-agent', 'HEADGATE_NODE_TOKEN'],
] as const)('%s asks for a %s that is empty or blank', (command, variable) => {
  for (const value of whatIsUnset) {
    const env = { HEADGATE_OPERATOR_TOKEN: token, [variable]: value };
    expect(refusal(commands[command](folder()), env)).toContain(`set ${variable}`);
  }
});

test.each(['control-plane', 'dev', 'gateway'] as const)(
  '%s refuses a gateway token that is the operator token, whatever blanks surround either',
  (command) => {
    const env = { HEADGATE_OPERATOR_TOKEN: ` ${token}\n`, HEADGATE_GATEWAY_TOKEN: `${token} ` };
    const stderr = refusal(commands[command](folder()), env);
    expect(stderr).toContain('HEADGATE_GATEWAY_TOKEN is the operator token');
    expect(stderr).not.toContain(token);
  },
);

test('a gateway refuses the operator token as its own, also where it comes in a file', () => {
  const dir = folder();
  writeFileSync(join(dir, 'operator'), `${token}\n`);
  const file = { HEADGATE_OPERATOR_TOKEN_FILE: join(dir, 'operator') };
  const stderr = refusal(gateway(dir), { ...file, HEADGATE_GATEWAY_TOKEN: token });
  expect(stderr).toContain('HEADGATE_GATEWAY_TOKEN is the operator token');
  expect(stderr).not.toContain(token);
});

test('a control plane refuses a previous gateway token that is the operator token', () => {
  const env = {
    HEADGATE_OPERATOR_TOKEN: token,
    HEADGATE_GATEWAY_TOKEN: `${token}-of-gateways`,
    HEADGATE_GATEWAY_TOKEN_PREVIOUS: token,
  };
  const stderr = refusal(commands['control-plane'](folder()), env);
  expect(stderr).toContain('HEADGATE_GATEWAY_TOKEN_PREVIOUS is the operator token');
  expect(stderr).not.toContain(token);
});

/** Every route of the admin API that an outsider would try, with every way of saying nothing. */
async function expectClosed({ ready }: Started<{ admin: string }>): Promise<void> {
  const nothing = [undefined, '', 'Bearer', 'Bearer ', 'Bearer  ', 'Bearer \t', 'Bearer x', 'Basic Og=='];
  for (const authorization of nothing) {
    for (const path of ['/status', '/snapshot', '/keys', '/log', '/usage/export', '/confirmations/1']) {
      const { status, body } = await fetch(`${ready.admin}/admin/v1${path}`, {
        headers: authorization === undefined ? {} : { authorization },
      });
      await body?.cancel();
      expect([authorization, path, status]).toEqual([authorization, path, 401]);
    }
  }
}

test.each(whatIsUnset)(
  'HEADGATE_GATEWAY_TOKEN_PREVIOUS=%j opens nothing of a control plane',
  async (value) => {
    const dir = folder();
    const env = {
      HEADGATE_OPERATOR_TOKEN: token,
      HEADGATE_GATEWAY_TOKEN: gatewayToken,
      HEADGATE_GATEWAY_TOKEN_PREVIOUS: value,
    };
    const started = await startProcess<{ admin: string }>({ dir, name: 'cp', args: plane(dir), env });
    try {
      await expectClosed(started);
    } finally {
      await started.end();
    }
  },
);

test.each(whatIsUnset)('HEADGATE_OPERATOR_TOKEN=%j opens nothing of a dev service', async (value) => {
  const dir = folder();
  const env = {
    HEADGATE_OPERATOR_TOKEN: value,
    HEADGATE_GATEWAY_TOKEN: value,
    HEADGATE_CONTEXT: join(dir, 'context.json'),
  };
  const started = await startProcess<{ admin: string }>({ dir, name: 'dev', args: dev(dir), env });
  try {
    await expectClosed(started);
  } finally {
    await started.end();
  }
});

test.each(['', '\n', 'short\n'])('dev refuses a token file that holds %j, with the next step', (text) => {
  const dir = folder();
  mkdirSync(join(dir, 'dev'));
  writeFileSync(join(dir, 'dev', 'operator-token'), text);
  const stderr = refusal(dev(dir), { HEADGATE_CONTEXT: join(dir, 'context.json') });
  expect(stderr).toMatch(/dev\/operator-token .*delete it/s);
});
