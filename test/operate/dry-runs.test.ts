/**
 * Runs every CLI command with `--dry-run`. No command may write a file, print a working link or change anything. The commands
 * come from the program's own help examples, so new ones are covered automatically.
 */

import { generateKeyPairSync } from 'node:crypto';
import type { EventEmitter } from 'node:events';
import { mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { buildProgram } from '../../cli/run.ts';
import { operatorToken, startFleet, type TestFleet } from '../support/fleet.ts';
import { folderOfFile } from '../support/folders.ts';
import { runCli, testIo } from '../support/run-cli.ts';

const dir = folderOfFile('dry-runs');
const work = join(dir, 'work');
let fleet: TestFleet;
let names: Readonly<Record<string, string>>;

beforeAll(async () => {
  fleet = await startFleet({
    controlPlane: { console: { bind: '127.0.0.1', port: 0, hosts: [], demo: false, addresses: () => ({}) } },
  });
  mkdirSync(work);
  const { admin } = fleet;
  for (const person of ['ana', 'bob'])
    await admin.call('PUT', `/organisations/acme/members/${person}`, { role: 'owner' });
  const key = await fleet.key('acme');
  const token = await admin.call('POST', '/nodes/pool-1/tokens', {});
  const [stack] = await admin.stacks();
  const { publicKey } = generateKeyPairSync('ed25519');
  writeFileSync(join(work, 'signing.pub'), publicKey.export({ type: 'spki', format: 'pem' }));
  const exported = await cli(['export']);
  writeFileSync(join(work, 'fleet.yaml'), exported.out);
  writeFileSync(join(dir, 'log.jsonl'), (await cli(['events', 'export'])).out);
  const plane = join(fleet.dir, 'control-plane');
  expect(await cli(['backup', join(dir, 'backup'), '--data', plane])).toMatchObject({ code: 0 });
  writeFileSync(join(work, 'decisions.jsonl'), (await cli(['decisions', 'export'])).out);
  await fleet.settle();
  names = {
    'key-3k9…': key.id,
    'tok-1': String(token['id']),
    'stk-amber-otter-9k2f': stack?.id ?? '',
    'gw-1': 'gateway-1',
    'req_…': `req_${'0'.repeat(32)}`,
    FINGERPRINT: '0'.repeat(64),
    '/backup/headgate': join(dir, 'backup'),
    '/var/lib/headgate/gw-1': join(fleet.dir, 'gateway-1'),
    'gw-1/state.db': join(fleet.dir, 'gateway-1', 'state.db'),
    '/var/lib/headgate/cp-1': plane,
    '18000': '1',
    '1000': String(await admin.position()),
    '18229': String(await admin.position()),
    '18240': String(await admin.position()),
  };
});
afterAll(async () => {
  await fleet?.close();
});

const cli = (argv: readonly string[]) =>
  runCli(argv, {
    cwd: work,
    home: join(dir, 'home'),
    env: {
      HEADGATE_ADMIN: fleet.controlPlane.admin,
      HEADGATE_TOKEN: operatorToken,
      HEADGATE_LOG: fleet.logUrl,
    },
  });

function examplesOf(command: Command): string[] {
  let text = '';
  const write = (piece: string): void => {
    text += piece;
  };
  (command as unknown as EventEmitter).emit('beforeHelp', { error: false, command, write });
  return text.split('\n').flatMap((line) => /^ {2}headgate (.*)$/.exec(line)?.[1] ?? []);
}

function allOf(command: Command): Command[] {
  return command.commands.flatMap((each) => [each, ...allOf(each)]);
}

const program = await buildProgram(testIo({}).io);
const commands = allOf(program).filter((command) => command.name() !== 'help');
const lines = [...new Set(commands.flatMap(examplesOf))];

/** Splits a line into words as a shell does, and leaves out its redirection. */
function wordsOf(line: string): string[] {
  const words = (line.split(' > ')[0] ?? '').match(/"[^"]*"|'[^']*'|\S+/g) ?? [];
  const given = words.map((word) => word.replaceAll(/["']/g, '')).map((word) => names[word] ?? word);
  return given[0] === 'replay'
    ? given.map((word) => word.replace(/^log\.jsonl$/, join(dir, 'log.jsonl')))
    : given;
}

/** Returns every file below a folder, with its size and modification time. */
function filesIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .map((entry) => ({ path: join(entry.parentPath, entry.name), isFile: entry.isFile() }))
    .map(({ path, isFile }) => (isFile ? `${path} ${statSync(path).mtimeMs} ${statSync(path).size}` : path))
    .sort();
}

/** Exit codes of the examples that fail in this fleet. All other examples exit with 0. */
const refused: Readonly<Record<string, number>> = {
  // This example fails, and its error names the command that shows whether a backup is usable.
  'backup /backup/headgate --data /var/lib/headgate/cp-1': 2,
  // This fleet has no state from ten minutes ago.
  'diff --from 18000 --to 10m': 3,
  // No change is being released in this fleet.
  'change show 17': 3,
  'change advance 17 --in-wave 1': 3,
  'change withdraw 17': 3,
  'explain --request req_…': 3,
  'gateway verify': 2,
  // These examples create an object that already exists, or remove one that is in use or does not exist.
  'model delete echo-large --yes': 6,
  // This node is the last one that serves its models.
  'node drain pool-1': 6,
  // Without recorded requests, the effect can only list the rows that differ.
  'tier set Starter --models echo-large --effect': 1,
  'node register pool-1 --place pool --url http://10.0.0.5:8000 --dialect vllm': 6,
  'org create acme --name Acme --tier Platinum': 6,
  'signer add signing.pub': 6,
  'signer remove FINGERPRINT --yes': 3,
  'tier delete Starter --yes': 6,
};

/** Whether to leave out the command, because it would not end or would contact another machine. */
const left = (line: string): boolean =>
  /^(?:events tail$|requests tail\b)/.test(line) || line.includes('kafka://');

test('every command has an example', () => {
  expect(commands.filter((command) => examplesOf(command).length === 0)).toEqual([]);
  expect(lines.length).toBeGreaterThan(80);
});

test.each(lines.filter((line) => !left(line)))('headgate %s changes nothing in a dry run', async (line) => {
  const before = {
    files: filesIn(dir),
    position: await fleet.admin.position(),
    fleet: await fleet.admin.exportFleet(),
  };
  const gateways = (await fleet.admin.call('GET', '/gateways')) as { items: { forgotten?: true }[] };
  for (const more of [[], ['-o', 'json']]) {
    const { code, out, err } = await cli([
      ...wordsOf(line),
      ...(line.includes('--dry-run') ? [] : ['--dry-run']),
      ...more,
    ]);
    expect([code, err]).toEqual([refused[line] ?? 0, expect.any(String)]);
    // The output must not contain a link's ticket, a new key or a new token.
    expect(out).not.toMatch(/#[\w.-]{20,}|\bhg[a-z]{0,4}_[\w-]{16,}/);
  }
  expect({
    files: filesIn(dir),
    position: await fleet.admin.position(),
    fleet: await fleet.admin.exportFleet(),
  }).toEqual(before);
  expect(gateways.items.some(({ forgotten }) => forgotten)).toBe(false);
});
