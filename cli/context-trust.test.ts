/**
 * Tests that the CLI never sends a token to a server for which the token is not meant, by checking what a real listener
 * receives.
 */
import { execFileSync, spawn } from 'node:child_process';
import { chmodSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { type AdminServer, startAdminServer } from '../test/support/admin-server.ts';
import { folderOfFile } from '../test/support/folders.ts';
import { type CliRun, runCli } from '../test/support/run-cli.ts';

const secret = 'my-production-operator-token-1234';
const root = folderOfFile('trust');
const file = join(root, '.headgate', 'context.json');
const deep = join(root, 'a', 'b');
const tokenFile = join(root, 'token');
let planted: AdminServer;
let mine: AdminServer;
beforeAll(async () => {
  mkdirSync(deep, { recursive: true });
  mkdirSync(join(root, '.headgate'));
  writeFileSync(tokenFile, secret);
  planted = await startAdminServer();
  mine = await startAdminServer();
});
afterEach(() => {
  // Checks after every test that the listener has not received the secret.
  expect(JSON.stringify(planted.seen)).not.toContain(secret);
  planted.seen.length = 0;
  mine.seen.length = 0;
});
afterAll(async () => {
  await planted.close();
  await mine.close();
});

function plant(more: object = {}, mode = 0o600): void {
  writeFileSync(file, JSON.stringify({ admin: planted.url, ...more }));
  chmodSync(file, mode);
}
const run = (
  argv: string[] = [],
  env: Record<string, string> = {},
  where: object = { cwd: deep },
): Promise<CliRun> => runCli(['key', 'list', ...argv], { env, ...where });

const sources: readonly (readonly [string, string[], Record<string, string>])[] = [
  ['HEADGATE_TOKEN', [], { HEADGATE_TOKEN: secret }],
  ['HEADGATE_OPERATOR_TOKEN', [], { HEADGATE_OPERATOR_TOKEN: secret }],
  ['--token-file', ['--token-file', tokenFile], {}],
];

describe.each(sources)('a token from %s', (_name, argv, env) => {
  test.each([{ cwd: root }, { cwd: deep }, { home: root }])(
    'is not sent to a context found by searching: %j',
    async (where) => {
      plant();
      const found = await run(argv, env, where);
      expect(found).toMatchObject({ code: 4, out: '' });
      expect(found.err).toContain('context.json');
      expect(found.err).not.toContain(secret);
      expect(planted.seen).toEqual([]);
    },
  );

  test('is not sent to a context with its own token', async () => {
    plant({ token: 'token-of-the-context' });
    await run(argv, env);
    for (const { headers } of planted.seen) expect(headers.authorization).toBe('Bearer token-of-the-context');
  });

  test('is sent to the address in a flag or the environment, whatever context is found', async () => {
    plant({ token: 'token-of-the-context' }, 0o666);
    expect((await run([...argv, '--admin', mine.url], env)).code).toBe(0);
    expect((await run(argv, { ...env, HEADGATE_ADMIN: mine.url })).code).toBe(0);
    expect(mine.seen.map(({ headers }) => headers.authorization)).toEqual([
      `Bearer ${secret}`,
      `Bearer ${secret}`,
    ]);
    expect(planted.seen).toEqual([]);
  });
});

test('a found context is used with its own token', async () => {
  plant({ token: 'token-of-the-context' });
  expect((await run()).code).toBe(0);
  expect(planted.seen.at(-1)?.headers.authorization).toBe('Bearer token-of-the-context');
});

test.each(['620', '602', '666'])(
  'a context with mode %s, which others may write, is not used for anything',
  async (mode) => {
    plant(
      { token: 'token-of-the-context', log: `sqlite:${root}/log`, gateways: [{ name: 'g', dataDir: root }] },
      Number.parseInt(mode, 8),
    );
    const commands = [
      ['key', 'list'],
      ['replay', '--from-log'],
      ['gateway', 'verify'],
    ];
    for (const argv of commands) {
      for (const where of [{ cwd: deep }, { env: { HEADGATE_CONTEXT: file } }]) {
        const refused = await runCli(argv, where);
        expect([argv, refused.code, refused.out]).toEqual([argv, 2, '']);
        expect(refused.err).toMatch(/other users can write to it.*chmod go-w/s);
      }
    }
    expect(planted.seen).toEqual([]);
  },
);

// A context file that belongs to another user is not tested, because only root can create one.
test('a pipe in place of a context file is neither awaited nor read', async () => {
  const valid = join(root, 'valid.json');
  writeFileSync(valid, JSON.stringify({ admin: planted.url, token: 'a-token-of-the-pipe-1234' }));
  rmSync(file, { force: true });
  execFileSync('mkfifo', ['-m', '600', file]);
  const writer = spawn('sh', ['-c', `sleep 3; exec cat '${valid}' > '${file}'`], { detached: true });
  try {
    expect(await run()).toMatchObject({ code: 2, out: '' });
    expect(planted.seen).toEqual([]);
  } finally {
    process.kill(-(writer.pid as number));
    rmSync(file, { force: true });
  }
});

test.runIf(process.getuid?.() === 0)(
  'a context file owned by another user is not used for anything',
  async () => {
    const { chownSync } = await import('node:fs');
    plant({ token: 'token-of-the-context' });
    chownSync(file, 65_534, 65_534);
    const refused = await run();
    expect(refused.code).toBe(2);
    expect(refused.err).toContain('belongs to another user');
    expect(planted.seen).toEqual([]);
    rmSync(file);
  },
);

test.each(['', ' ', 'x', 'fifteen-letters', 'two words of some length'])(
  'HEADGATE_TOKEN=%j is neither sent nor printed',
  async (value) => {
    rmSync(file, { force: true });
    const refused = await run(['--admin', mine.url], { HEADGATE_TOKEN: value });
    expect(refused.code).toBe(value.trim() === '' ? 4 : 2);
    if (value.length > 1) expect(refused.err).not.toContain(value);
    expect(mine.seen).toEqual([]);
  },
);
