/**
 * Tests what holds for all commands of the CLI: exit codes, error texts, help, confirmation, and secrets that never leave it.
 */
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import type { Command } from 'commander';
import { beforeEach, expect, test } from 'vitest';
import { cliOf, errorAnswer, useAdminServer } from '../test/support/admin-server.ts';
import { folderOfTest } from '../test/support/folders.ts';
import { portOf } from '../test/support/listen.ts';
import { type CliOptions, type CliRun, runCli } from '../test/support/run-cli.ts';
import { buildProgram } from './run.ts';
import { exitCodes } from './terminal/errors.ts';
import { processIo } from './terminal/io.ts';

const server = useAdminServer();
beforeEach(() => {
  server.answer = () => ({ body: { id: 'acme', position: 3 } });
});

const cli = cliOf(server);

async function closedPort(): Promise<number> {
  const listener = createServer();
  const port = await portOf(listener);
  await new Promise((resolve) => listener.close(resolve));
  return port;
}

test.each([
  [400, 'InvalidCommand', 2],
  [401, 'Unauthorized', 4],
  [403, 'Forbidden', 4],
  [404, 'NotFound', 3],
  [409, 'Conflict', 6],
  [409, 'PositionMoved', 6],
  [409, 'GuardRefused', 6],
  [413, 'CommandTooLarge', 2],
  [500, 'InternalError', 1],
  [503, 'LogUnavailable', 7],
])('status %i %s exits %i', async (status, type, code) => {
  server.answer = () => errorAnswer(status, type, { next: 'do this' });
  const run = await cli(['org', 'resume', 'acme']);
  expect(run).toMatchObject({ code, out: '' });
  expect(run.err).toBe(
    `error[${type}]: ${type} it is\n` +
      `  why   HTTP ${status} CODE at /admin/v1/x\n` +
      `  next  do this\n` +
      `  more  headgate help exit-codes (this is ${code})\n`,
  );
  expect(server.seen).toHaveLength(1);
});

test('every detail of a refusal is printed', async () => {
  server.answer = () =>
    errorAnswer(400, 'InvalidCommand', {
      details: [
        { path: 'name', message: 'too long' },
        { path: 'tier', message: 'unknown' },
      ],
    });
  const { err } = await cli(['org', 'resume', 'acme']);
  expect(err).toContain('  why   name: too long\n  why   tier: unknown\n');
});

test.each([
  ['an unknown command', ['orgs', 'list']],
  ['a noun without a verb', ['org']],
  ['an unknown option', ['org', 'list', '--nope']],
  ['one operand too many', ['org', 'get', 'a', 'b']],
  ['a missing option', ['org', 'create', 'acme']],
  ['a position on a write', ['org', 'resume', 'acme', '--at', '3']],
  [
    'an invalid served name',
    ['node', 'register', 'n', '--place', 'pool', '--url', 'u', '--dialect', 'd', '--served', 'm'],
  ],
  ['an empty id', ['org', 'get', '']],
  ['an id that would leave its path', ['stack', 'install', '..', 'm']],
  ['an invalid address', ['org', 'list', '--admin', 'ftp://x']],
  ['a missing file', ['validate', '-f', '/nonexistent/f.yaml']],
  ['help on an unknown topic', ['help', 'nope']],
  ['replay of two sources', ['replay', 'f', '--from-log']],
  ['replay without a source', ['replay']],
])('usage: %s exits 2 and sends nothing', async (_name, argv) => {
  const run = await cli(argv);
  expect(run).toMatchObject({ code: 2, out: '' });
  expect(run.err).not.toBe('');
  expect(server.seen).toEqual([]);
});

test('a control plane that is not running exits 7 at once, with the next step', async () => {
  const admin = `http://127.0.0.1:${await closedPort()}`;
  const run = await cli(['org', 'list'], { env: { HEADGATE_ADMIN: admin } });
  expect(run.code).toBe(7);
  expect(run.err).toContain(`no control plane is reachable at ${admin}`);
  expect(run.err).toContain('--admin');
});

test.each([
  ['text', { bytes: Buffer.from('<html>') }],
  ['a list', { body: [] }],
  ['a foreign error', { status: 502, bytes: Buffer.from('bad gateway') }],
])('a server that responds with %s is not a control plane: exit 7', async (_name, answer) => {
  server.answer = () => answer;
  expect((await cli(['org', 'list'])).code).toBe(7);
});

test('a redirect is not followed, because the token is for one address only', async () => {
  server.answer = ({ path }) =>
    path === '/elsewhere'
      ? { body: { items: [], position: 1 } }
      : { status: 307, headers: { location: '/admin/v1/elsewhere' } };
  expect((await cli(['org', 'list'])).code).toBe(7);
  expect(server.seen).toHaveLength(1);
});

test.each([
  ['the connection breaks', 'hang-up' as const],
  ['the outcome is unknown', errorAnswer(503, 'OutcomeUnknown')],
])('if %s, the command is repeated with the same Idempotency-Key', async (_name, failure) => {
  server.answer = () => (server.seen.length < 3 ? failure : { body: { id: 'acme', position: 3 } });
  expect((await cli(['org', 'resume', 'acme'])).code).toBe(0);
  expect(server.seen).toHaveLength(3);
  expect(new Set(server.seen.map(({ headers }) => headers['idempotency-key'])).size).toBe(1);
});

test('after three attempts with an unknown outcome, the command gives up with exit 7', async () => {
  server.answer = () => errorAnswer(503, 'OutcomeUnknown');
  expect((await cli(['org', 'resume', 'acme'])).code).toBe(7);
  expect(server.seen).toHaveLength(3);
});

test('an interrupt exits 130', async () => {
  const controller = new AbortController();
  server.answer = () => {
    controller.abort();
    return { body: {} };
  };
  const run = await cli(['org', 'list'], { signal: controller.signal });
  expect(run.code).toBe(130);
});

const destructive = [
  ['org delete acme', 'acme'],
  ['member remove acme ana', 'ana'],
  ['tier delete Pro', 'Pro'],
  ['model delete m1', 'm1'],
  ['key revoke key-1', 'key-1'],
  ['stack delete stk-a-b-1', 'stk-a-b-1'],
  ['node remove n1', 'n1'],
  ['node token revoke tok-1', 'tok-1'],
] as const;

test.each(destructive)('%s without a terminal needs --yes and does not ask', async (line) => {
  const run = await cli(line.split(' '), { stdin: 'anything\n' });
  expect(run.code).toBe(2);
  expect(run.err).toContain('--yes');
  expect(server.seen).toEqual([]);
});

test.each(destructive)('%s on a terminal asks for the name to be typed', async (line, name) => {
  const wrong = await cli(line.split(' '), { typed: 'yes\n' });
  expect(wrong.code).toBe(2);
  const closed = await cli(line.split(' '), { typed: '' });
  expect(closed.code).toBe(2);
  expect(server.seen.every(({ path }) => path === '/effect')).toBe(true);
  server.seen.length = 0;
  const right = await cli(line.split(' '), { typed: `${name}\n` });
  expect(right).toMatchObject({ code: 0 });
  expect(right.err).toContain(`type ${name} to `);
  expect(server.seen.at(-1)?.path).not.toBe('/effect');
});

test.each(destructive)('%s --dry-run destroys nothing and therefore does not ask', async (line) => {
  expect((await cli([...line.split(' '), '--dry-run'])).code).toBe(0);
  expect(server.seen[0]?.query).toMatchObject({ dryRun: 'true' });
});

const hostile = 'a\u001b[2J\u0007\u009b\u007f\u202e\u2028\r\nb\ud800';

test.each(['table', 'json', 'jsonl', 'yaml', 'name'])(
  'control characters in names never reach the terminal: -o %s',
  async (format) => {
    server.answer = () => ({ body: { items: [{ id: hostile, name: hostile, [hostile]: 1 }], position: 1 } });
    const { out } = await cli(['org', 'list', '-o', format], { stdoutIsTerminal: true });
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
    expect(out).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2028\ud800]/);
    expect(out).toMatch(/u001b|\\e/);
    if (format === 'table') expect(out.trimEnd().split('\n')).toHaveLength(2);
  },
);

test.each([hostile.replace('\ud800', ''), 'a\u202eb', 'a\u007fb', 'a\u2028b', 'a\u00adb', ' x: "y" # z\n\n'])(
  'json and yaml preserve the meaning of what they escape: %j',
  async (name) => {
    const { parse } = await import('yaml');
    server.answer = () => ({ body: { id: 'a', name, [name]: [name] } });
    const [json, yaml] = [
      await cli(['org', 'get', 'a', '-o', 'json']),
      await cli(['org', 'get', 'a', '-o', 'yaml']),
    ];
    expect(JSON.parse(json.out)).toEqual({ id: 'a', name, [name]: [name] });
    expect(parse(yaml.out)).toEqual({ id: 'a', name, [name]: [name] });
  },
);

test('control characters in errors never reach the terminal', async () => {
  server.answer = () => errorAnswer(404, 'NotFound', { message: hostile, next: hostile });
  const { err } = await cli(['org', 'get', 'a']);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  expect(err).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e]/);
  expect(err.trimEnd().split('\n')).toHaveLength(4);
});

const keyValue = `hg_${'0123456789'.repeat(4)}`;
const tokenValue = `ngt_${'A_-4567890'.repeat(4)}abc`;

test.each([
  ['key', 'revoke', keyValue, '--yes'],
  ['key', 'get', keyValue],
  ['node', 'token', 'revoke', tokenValue, '--yes'],
  ['org', 'get', keyValue],
])('a key or token pasted instead of an id is neither sent nor printed: %s %s', async (...argv) => {
  const run = await cli(argv);
  expect(run.code).toBe(2);
  expect(run.out + run.err).not.toMatch(/0123456789|4567890/);
  expect(server.seen).toEqual([]);
});

test('an error never contains a secret, whatever its source', async () => {
  server.answer = () =>
    errorAnswer(400, 'InvalidCommand', { message: `no key ${keyValue}, no ${tokenValue}` });
  const refused = await cli(['org', 'get', 'a']);
  const unknown = await cli(['org', 'list', `--${keyValue}`]);
  expect(refused.err + unknown.err).not.toMatch(/0123456789|4567890/);
});

test.each([
  ['a token with a line feed', { HEADGATE_TOKEN: 'secret-part\nsecret-rest' }],
  ['an address with a password', { HEADGATE_ADMIN: 'http://:secret-part@127.0.0.1:1' }],
  ['an address with a user name', { HEADGATE_ADMIN: 'http://secret-part@127.0.0.1:1' }],
])('%s is refused without being printed', async (_name, env) => {
  const run = await cli(['org', 'list'], { env });
  expect(run.code).toBe(2);
  expect(run.err).not.toContain('secret');
});

test('colours are only for terminals without NO_COLOR and --no-color', async () => {
  server.answer = () => ({ body: { items: [{ name: 'gw', state: 'STALE' }], position: 1 } });
  const colours = async (argv: string[], options: CliOptions): Promise<boolean> =>
    (await cli(['gateway', 'list', ...argv], options)).out.includes('\u001b[31mSTALE');
  expect(await colours([], { stdoutIsTerminal: true })).toBe(true);
  expect(await colours([], {})).toBe(false);
  expect(await colours(['--no-color'], { stdoutIsTerminal: true })).toBe(false);
  expect(await colours([], { stdoutIsTerminal: true, env: { NO_COLOR: '1' } })).toBe(false);
});

test('columns line up with and without colour', async () => {
  const items = [
    { name: 'gw', state: 'STALE', applied: 1 },
    { name: 'gateway-2', state: 'SYNCED', applied: 2 },
  ];
  server.answer = () => ({ body: { items, position: 1 } });
  const { out } = await cli(['gateway', 'list'], { stdoutIsTerminal: true });
  // biome-ignore lint/suspicious/noControlCharactersInRegex: colours are taken away
  const rows = out.replace(/\u001b\[\d+m/g, '').split('\n');
  expect(rows[1]?.indexOf('STALE')).toBe(rows[0]?.indexOf('STATE'));
  expect(rows[2]?.indexOf('2  0')).toBe(-1);
  expect(rows[2]?.indexOf('SYNCED')).toBe(rows[0]?.indexOf('STATE'));
});

test('--quiet leaves only errors on stderr', async () => {
  server.answer = () => ({ body: { id: 'key-1', value: keyValue, position: 1 } });
  const argv = ['key', 'create', '--org', 'a', '--name', 'n', '--expires', 'never'];
  expect((await cli([...argv, '-q'])).err).toBe('');
  expect((await cli(argv)).err).not.toBe('');
});

function everyCommand(command: Command, words: string[] = []): string[][] {
  return [words, ...command.commands.flatMap((inner) => everyCommand(inner, [...words, inner.name()]))];
}

test('every help text starts with examples of existing commands', async () => {
  const commands = everyCommand(await buildProgram(processIo())).filter(([first]) => first !== 'help');
  expect(commands.length).toBeGreaterThan(60);
  for (const words of commands) {
    const { out, code } = await cli([...words, '--help']);
    expect(code, words.join(' ')).toBe(0);
    expect(out, words.join(' ')).toMatch(/^Examples:\n {2}headgate \S/);
    if (words.length > 1) expect(out).toContain(`  headgate ${words.join(' ')}`);
  }
});

test('help exit-codes prints the table of exit codes', async () => {
  const { out, code } = await cli(['help', 'exit-codes']);
  expect(code).toBe(0);
  for (const [number, meaning] of Object.entries(exitCodes))
    expect(out).toMatch(new RegExp(`^${number} +${meaning.slice(0, 10)}`, 'm'));
  expect((await cli(['help', 'key', 'revoke'])).out).toContain('--wait');
});

test('a process that shares its name with a noun keeps its own options', async () => {
  const started: unknown[] = [];
  const register = (program: Command): void => {
    program
      .command('gateway')
      .requiredOption('--log <url>')
      .option('--data <folder>')
      .action((options) => void started.push(options));
  };
  const processes = [{ names: ['gateway'], load: async () => register }];
  server.answer = () => ({ body: { items: [], position: 1 } });
  expect((await cli(['gateway', 'list'], { processes })).code).toBe(0);
  expect((await cli(['gateway', '--data', 'd'], { processes })).code).toBe(2);
  expect(started).toEqual([]);
  expect((await cli(['gateway', '--log', 'sqlite:x'], { processes })).code).toBe(0);
  expect(started).toEqual([{ log: 'sqlite:x' }]);
  const verified = await cli(['gateway', 'verify', '--data', '/nonexistent/d'], { processes });
  expect(verified.err).toContain('/nonexistent/d/state.db');
});

test('flags override the environment, which overrides a context, and a context keeps its own address', async () => {
  const folder = folderOfTest('cli');
  const file = join(folder, 'context.json');
  const context = (admin: string): void =>
    writeFileSync(file, JSON.stringify({ admin, token: 'token-of-context', gateways: [], extra: 1 }));
  const sent = (): string | undefined => server.seen.at(-1)?.headers.authorization;
  const run = (argv: string[], env: Record<string, string>): Promise<CliRun> =>
    runCli(['org', 'list', ...argv], { env: { HEADGATE_CONTEXT: file, ...env } });

  context(`${server.url}/admin/v1/`);
  expect((await run([], {})).code).toBe(0);
  expect(sent()).toBe('Bearer token-of-context');
  await run([], { HEADGATE_OPERATOR_TOKEN: 'operator-token-0001' });
  expect(sent()).toBe('Bearer operator-token-0001');
  await run([], { HEADGATE_OPERATOR_TOKEN: 'operator-token-0001', HEADGATE_TOKEN: 'token-of-my-own-1' });
  expect(sent()).toBe('Bearer token-of-my-own-1');
  writeFileSync(join(folder, 'token'), 'token-of-a-file-1\n');
  await run(['--token-file', join(folder, 'token')], { HEADGATE_TOKEN: 'token-of-my-own-1' });
  expect(sent()).toBe('Bearer token-of-a-file-1');
  await runCli(['org', 'list', '--token-file', '-'], {
    env: { HEADGATE_CONTEXT: file },
    stdin: 'token-of-stdin-01\n',
  });
  expect(sent()).toBe('Bearer token-of-stdin-01');

  context('http://127.0.0.1:1');
  const before = server.seen.length;
  expect(await run([], { HEADGATE_ADMIN: server.url })).toMatchObject({ code: 4, out: '' });
  expect(await run(['--admin', server.url], {})).toMatchObject({ code: 4, out: '' });
  expect(server.seen).toHaveLength(before);
  expect((await run(['--admin', server.url], { HEADGATE_TOKEN: 'token-of-my-own-1' })).code).toBe(0);

  writeFileSync(file, 'not json with token-of-context');
  const broken = await run([], {});
  expect(broken.code).toBe(2);
  expect(broken.err).not.toContain('token-of-context');
});

test('a context is found in the folder, in its parents and in the home folder', async () => {
  const { mkdirSync } = await import('node:fs');
  const root = folderOfTest('cli');
  const deep = join(root, 'a', 'b');
  mkdirSync(deep, { recursive: true });
  mkdirSync(join(root, '.headgate'));
  writeFileSync(
    join(root, '.headgate', 'context.json'),
    JSON.stringify({ admin: server.url, token: 'token-of-context' }),
  );
  expect((await runCli(['org', 'list'], { cwd: deep })).code).toBe(0);
  expect((await runCli(['org', 'list'], { home: root })).code).toBe(0);
  expect((await runCli(['org', 'list'])).code).toBe(4);
});
