// Tests that an unset, empty, blank or short secret never gives access, and that a process with a secret that is too short
// refuses to start.
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { runCommand } from '../support/commands.ts';
import { type Launch, startProcess } from '../support/processes.ts';

const root = mkdtempSync(join(tmpdir(), 'headgate-secrets-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const token = 'a-good-operator-token-1';
const gatewayToken = 'a-good-gateway-token-01';

type Environment = Readonly<Record<string, string | undefined>>;
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

/** Returns the standard error of a command that refuses to start. */
async function refusal(args: readonly string[], env: Environment): Promise<string> {
  const { code, stderr } = await runCommand(args, { env: { HEADGATE_LOG_LEVEL: 'fatal', ...env } });
  expect([1, 2]).toContain(code);
  return stderr;
}

const weak = [
  ['control-plane', 'HEADGATE_OPERATOR_TOKEN'],
  ['control-plane', 'HEADGATE_GATEWAY_TOKEN'],
  ['dev', 'HEADGATE_OPERATOR_TOKEN'],
  ['dev', 'HEADGATE_GATEWAY_TOKEN'],
  ['gateway', 'HEADGATE_GATEWAY_TOKEN'],
  ['node-agent', 'HEADGATE_NODE_TOKEN'],
] as const;

test.each(weak)('%s refuses a %s that is too short, without repeating it', async (command, variable) => {
  for (const value of whatIsWeak) {
    const stderr = await refusal(commands[command](folder()), {
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
] as const)('%s requires an unset %s to be set', async (command, variable) => {
  const env = { HEADGATE_OPERATOR_TOKEN: token, [variable]: undefined };
  expect(await refusal(commands[command](folder()), env)).toContain(`set ${variable}`);
});

const kafka = [
  ...['TLS', 'TLS_CA', 'TLS_CERT', 'TLS_KEY', 'SASL_MECHANISM', 'SASL_USERNAME', 'SASL_PASSWORD'],
  'SASL_PASSWORD_FILE',
].map((name) => `HEADGATE_KAFKA_${name}`);
const ofAll = [
  'HEADGATE_TLS_CERT',
  'HEADGATE_TLS_KEY',
  'HEADGATE_NODE_CREDENTIALS',
  'HEADGATE_NODE_CREDENTIAL_GPU',
];
const tokens = ['HEADGATE_GATEWAY_TOKEN', 'HEADGATE_GATEWAY_TOKEN_FILE'];
/** Variables that contain a secret, locate a key, name a trusted party, or configure sign-in. */
const protecting: Readonly<Record<keyof typeof commands, readonly string[]>> = {
  'control-plane': [
    ...['HEADGATE_OPERATOR_TOKEN', 'HEADGATE_OPERATOR_TOKEN_FILE', ...tokens, ...ofAll, ...kafka],
    ...['HEADGATE_GATEWAY_TOKEN_PREVIOUS', 'HEADGATE_GATEWAY_TOKEN_PREVIOUS_FILE'],
    ...['HEADGATE_SIGNING_KEY', 'HEADGATE_TRUST_SIGNER'],
    ...['ISSUER', 'CLIENT_ID', 'CLIENT_SECRET_FILE', 'OPERATOR_GROUP'].map((name) => `HEADGATE_OIDC_${name}`),
  ],
  dev: ['HEADGATE_OPERATOR_TOKEN', ...tokens, 'HEADGATE_SIGNING_KEY'],
  gateway: [
    ...tokens,
    ...ofAll,
    'HEADGATE_KAFKA_TLS_CA',
    'HEADGATE_TRUST_SIGNER',
    'HEADGATE_TRUSTED_PROXIES',
  ],
  // The agent reads no node credentials unless it is given a node's name.
  'node-agent': ['HEADGATE_NODE_TOKEN', 'HEADGATE_NODE_TOKEN_FILE', 'HEADGATE_TLS_CERT', 'HEADGATE_TLS_KEY'],
};
const blanks = Object.entries(protecting).flatMap(([command, variables]) =>
  variables.map((variable) => [command as keyof typeof commands, variable] as const),
);

test.each(blanks)('%s refuses to start with a blank %s, and names it', async (command, variable) => {
  const dir = folder();
  const given = commands[command](dir);
  const args = kafka.includes(variable) ? [...given, '--log', 'kafka://127.0.0.1:9'] : given;
  const secret = variable.replace(/_FILE$/, '');
  const env = {
    ...{ HEADGATE_OPERATOR_TOKEN: token, HEADGATE_GATEWAY_TOKEN: gatewayToken, HEADGATE_NODE_TOKEN: token },
    ...{ [secret]: undefined, HEADGATE_CONTEXT: join(dir, 'context.json') },
  };
  // Uses three kinds of blank values in turn, so that every variable is tested with one of them.
  const value =
    whatIsUnset[blanks.findIndex((each) => each[0] === command && each[1] === variable) % 3] ?? '';
  const stderr = await refusal(args, { ...env, [variable]: value });
  expect(stderr).toContain(variable);
  expect(stderr).toMatch(/is empty/i);
});

test.each(['control-plane', 'dev', 'gateway'] as const)(
  '%s refuses a gateway token equal to the operator token, whatever blanks surround either',
  async (command) => {
    const env = { HEADGATE_OPERATOR_TOKEN: ` ${token}\n`, HEADGATE_GATEWAY_TOKEN: `${token} ` };
    const stderr = await refusal(commands[command](folder()), env);
    expect(stderr).toContain('HEADGATE_GATEWAY_TOKEN is the operator token');
    expect(stderr).not.toContain(token);
  },
);

test('a gateway refuses the operator token as its own, even from a file', async () => {
  const dir = folder();
  writeFileSync(join(dir, 'operator'), `${token}\n`);
  const file = { HEADGATE_OPERATOR_TOKEN_FILE: join(dir, 'operator') };
  const stderr = await refusal(gateway(dir), { ...file, HEADGATE_GATEWAY_TOKEN: token });
  expect(stderr).toContain('HEADGATE_GATEWAY_TOKEN is the operator token');
  expect(stderr).not.toContain(token);
});

test('a control plane refuses a previous gateway token equal to the operator token', async () => {
  const env = {
    HEADGATE_OPERATOR_TOKEN: token,
    HEADGATE_GATEWAY_TOKEN: `${token}-of-gateways`,
    HEADGATE_GATEWAY_TOKEN_PREVIOUS: token,
  };
  const stderr = await refusal(commands['control-plane'](folder()), env);
  expect(stderr).toContain('HEADGATE_GATEWAY_TOKEN_PREVIOUS is the operator token');
  expect(stderr).not.toContain(token);
});

/** Tries admin API routes that an outsider would try, with every form of missing credentials. */
async function expectClosed({ ready }: Launch<{ admin: string }>): Promise<void> {
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

test('a control plane without a previous gateway token accepts no call without a token', async () => {
  const dir = folder();
  const env = { HEADGATE_OPERATOR_TOKEN: token, HEADGATE_GATEWAY_TOKEN: gatewayToken };
  const started = await startProcess<{ admin: string }>({ dir, name: 'cp', args: plane(dir), env });
  try {
    await expectClosed(started);
  } finally {
    await started.end();
  }
});

test('a dev service without tokens in its environment accepts no call without a token', async () => {
  const dir = folder();
  const env = {
    ...{ HEADGATE_OPERATOR_TOKEN: undefined, HEADGATE_GATEWAY_TOKEN: undefined },
    HEADGATE_CONTEXT: join(dir, 'context.json'),
  };
  const started = await startProcess<{ admin: string }>({ dir, name: 'dev', args: dev(dir), env });
  try {
    await expectClosed(started);
  } finally {
    await started.end();
  }
});

test.each(['', '\n', 'short\n'])(
  'dev refuses a token file that contains %j, with the next step',
  async (text) => {
    const dir = folder();
    mkdirSync(join(dir, 'dev'));
    writeFileSync(join(dir, 'dev', 'operator-token'), text);
    const stderr = await refusal(dev(dir), { HEADGATE_CONTEXT: join(dir, 'context.json') });
    expect(stderr).toMatch(/dev\/operator-token .*delete it/s);
  },
);

const sim = (): string[] => ['sim-node', ...free];
const processes = { ...commands, 'sim-node': sim };
const given = {
  HEADGATE_OPERATOR_TOKEN: token,
  HEADGATE_GATEWAY_TOKEN: gatewayToken,
  HEADGATE_NODE_TOKEN: 'a-good-node-token-001',
};

/** Returns the inodes of the TCP sockets on which the process listens. */
function listeningPorts(pid: number): number[] {
  const own = new Set(
    readdirSync(`/proc/${pid}/fd`).flatMap((descriptor) => {
      try {
        return /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${descriptor}`))?.[1] ?? [];
      } catch {
        return [];
      }
    }),
  );
  const lines = readFileSync(`/proc/${pid}/net/tcp`, 'utf8').trim().split('\n').slice(1);
  return lines
    .map((line) => line.trim().split(/\s+/))
    .filter((cells) => cells[3] === '0A' && own.has(cells[9] ?? ''))
    .map((cells) => Number.parseInt(cells[1]?.split(':')[1] ?? '', 16))
    .sort((a, b) => a - b);
}

test.each(Object.keys(processes) as (keyof typeof processes)[])(
  '%s opens no debugger at SIGUSR1, and keeps running',
  async (kind) => {
    const dir = folder();
    const env = { ...given, HEADGATE_CONTEXT: join(dir, 'context.json') };
    // The gateway needs a log, so a control plane creates one first.
    const first =
      kind === 'gateway' ? await startProcess({ dir, name: 'cp', args: plane(dir), env }) : undefined;
    const started = await startProcess<object>({ dir, name: kind, args: processes[kind](dir), env });
    try {
      const pid = started.child.pid ?? 0;
      const before = listeningPorts(pid);
      for (let times = 0; times < 3; times++) started.child.kill('SIGUSR1');
      // After SIGUSR1, Node would by default start a thread that opens the debugger and announces it on standard error. Gives
      // the thread time to do so.
      await new Promise((resolve) => setTimeout(resolve, 500));
      expect(started.stderr()).not.toContain('Debugger');
      expect(listeningPorts(pid)).toEqual(before);
      expect(started.child.exitCode).toBeNull();
    } finally {
      await started.end('SIGKILL');
      await first?.end('SIGKILL');
    }
  },
);

const secretPem = generateKeyPairSync('rsa', { modulusLength: 2048 })
  .privateKey.export({ type: 'pkcs8', format: 'pem' })
  .toString();
const randomText = randomBytes(24).toString('base64url');
/** Invalid values for each of these variables. They may be secrets, so no message may repeat them. */
const wrongForms = [secretPem, randomText, `two\n${randomText}`, `-----BEGIN ${randomText}`];
const secretVariables: readonly (readonly [keyof typeof processes, string])[] = [
  ['control-plane', 'HEADGATE_SIGNING_KEY'],
  ['control-plane', 'HEADGATE_TLS_KEY'],
  ['control-plane', 'HEADGATE_OPERATOR_TOKEN_FILE'],
  ['control-plane', 'HEADGATE_GATEWAY_TOKEN_FILE'],
  ['gateway', 'HEADGATE_GATEWAY_TOKEN_FILE'],
  ['gateway', 'HEADGATE_TLS_KEY'],
  ['node-agent', 'HEADGATE_NODE_TOKEN_FILE'],
  ['sim-node', 'HEADGATE_TLS_KEY'],
  ['dev', 'HEADGATE_SIGNING_KEY'],
];

test.each(secretVariables)('%s does not repeat a wrong %s', async (kind, variable) => {
  for (const value of wrongForms) {
    const dir = folder();
    const named = variable.replace(/_FILE$/, '');
    const own = variable === named ? {} : { [named]: undefined };
    const tls = variable === 'HEADGATE_TLS_KEY' ? { HEADGATE_TLS_CERT: '/etc/hostname' } : {};
    const env = { ...given, ...own, ...tls, HEADGATE_CONTEXT: join(dir, 'context.json'), [variable]: value };
    const stderr = await refusal(processes[kind](dir), env);
    for (const line of value
      .split('\n')
      .filter((each) => each.length > 10 && !/^-----(?:BEGIN|END) \w+ \w+-----$/.test(each)))
      expect(stderr).not.toContain(line);
    expect(stderr).toMatch(/error\[/);
  }
});

test('a control plane signs with a key given in the variable itself', async () => {
  const dir = folder();
  const pem = generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
  const env = { ...given, HEADGATE_SIGNING_KEY: pem };
  const started = await startProcess({ dir, name: 'cp', args: plane(dir), env });
  await started.end('SIGKILL');
});
