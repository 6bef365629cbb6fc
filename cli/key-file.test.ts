/** `key create --from` and `node token create --from`: what is sent, what is printed, and how a file that was not finished is continued. */
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import { cliOf, errorAnswer, useAdminServer } from '../test/support/admin-server.ts';
import { folderOfFile } from '../test/support/folders.ts';
import type { CliRun } from '../test/support/run-cli.ts';

const server = useAdminServer();
const folder = folderOfFile('cli');

interface Item {
  readonly organisation: string;
  readonly name: string;
}
const itemsOf = (body: unknown): readonly Item[] => (body as { readonly items: readonly Item[] }).items;

/** Keys that a call creates are numbered through the test. */
let made = 0;
beforeEach(() => {
  made = 0;
  server.answer = ({ body }) => {
    const items = itemsOf(body).map(({ organisation, name }) => {
      made++;
      return { id: `key-${made}`, organisation, name, value: `v-${made}` };
    });
    return { body: { items, position: 9 } };
  };
});

const ask = cliOf(server, { cwd: folder });
const cli = (words: string[]): Promise<CliRun> => ask(['key', 'create', ...words]);
function file(lines: readonly string[], name = 'keys.csv'): string {
  writeFileSync(join(folder, name), ['organisation,name,expires', ...lines, ''].join('\n'));
  return name;
}
const lines = (count: number): string[] => Array.from({ length: count }, (_, n) => `acme,k${n},30d`);
const commandIds = () => server.seen.map(({ headers }) => headers['idempotency-key']);

test('the keys of a file are created by one command, and printed as CSV', async () => {
  const from = file(['acme,"job, nightly",30d', 'birch,ci,never']);
  const run = await cli(['--from', from]);
  expect(run.code).toBe(0);
  expect(run.out).toBe('id,organisation,name,value\nkey-1,acme,"job, nightly",v-1\nkey-2,birch,ci,v-2\n');
  expect(run.err).not.toContain('v-1');
  expect(server.seen.map(({ body }) => body)).toEqual([
    {
      items: [
        { organisation: 'acme', name: 'job, nightly', expires: '30d' },
        { organisation: 'birch', name: 'ci', expires: 'never' },
      ],
    },
  ]);
});

test('-o json is one document, -o jsonl a line a key, and --out a new file for its owner alone', async () => {
  const from = file(lines(2));
  const first = { id: 'key-1', organisation: 'acme', name: 'k0', value: 'v-1' };
  const items = [first, { id: 'key-2', organisation: 'acme', name: 'k1', value: 'v-2' }];
  expect(JSON.parse((await cli(['--from', from, '-o', 'json'])).out)).toEqual({ items });
  made = 0;
  expect((await cli(['--from', from, '-o', 'jsonl'])).out.split('\n')[0]).toBe(JSON.stringify(first));
  made = 0;
  expect((await cli(['--from', from, '--out', 'values.csv'])).out).toBe('');
  expect(readFileSync(join(folder, 'values.csv'), 'utf8')).toMatch(
    /^id,organisation,name,value\nkey-1,acme,k0,v-1\n/,
  );
  expect(statSync(join(folder, 'values.csv')).mode & 0o777).toBe(0o600);
});

test('more than a thousand lines are sent in parts, each with a name of its own', async () => {
  const run = await cli(['--from', file(lines(2500)), '--command-id', 'renewal-2026', '-o', 'json']);
  expect(run.code).toBe(0);
  expect(server.seen.map(({ body }) => itemsOf(body).length)).toEqual([1000, 1000, 500]);
  expect(commandIds()).toEqual(['renewal-2026.0', 'renewal-2026.1000', 'renewal-2026.2000']);
  expect(JSON.parse(run.out).items).toHaveLength(2500);
  expect(run.err).toContain('2000 of 2500 keys');
});

test('where a part fails, what was created is printed, and the next step continues behind it', async () => {
  const works = server.answer;
  let calls = 0;
  const fault = errorAnswer(404, 'NotFound');
  server.answer = (seen) => (++calls === 2 ? fault : works(seen));
  const from = file(lines(1500));
  const run = await cli(['--from', from, '--command-id', 'renewal-2026']);
  expect(run.code).toBe(3);
  expect(run.out.trimEnd().split('\n')).toHaveLength(1001);
  expect(run.err).toContain('1000 of 1500 keys of keys.csv are done');
  const next = /headgate key create (--from keys\.csv --skip-lines 1000 --command-id renewal-2026)/.exec(
    run.err,
  );
  server.seen.length = 0;
  const rest = await cli((next?.[1] ?? '').split(' '));
  expect([rest.code, rest.out.trimEnd().split('\n').length]).toEqual([0, 501]);
  expect(commandIds()).toEqual(['renewal-2026.1000']);
});

test('a document of a file that was not finished is whole', async () => {
  const works = server.answer;
  let calls = 0;
  server.answer = (seen) => (++calls === 2 ? errorAnswer(403, 'Forbidden') : works(seen));
  const run = await cli(['--from', file(lines(1001)), '-o', 'json']);
  expect(run.code).toBe(4);
  expect(JSON.parse(run.out).items).toHaveLength(1000);
});

test('an item that the control plane refuses is named by its line', async () => {
  const message = 'items[1].organisation: there is no organisation birch';
  const error = { code: 'NOT_FOUND', type: 'NotFound', message, status: 404, path: '/admin/v1/keys' };
  server.answer = () => ({ status: 404, body: { error } });
  const run = await cli(['--from', file(['', 'acme,a,30d', 'birch,b,30d'])]);
  expect(run).toMatchObject({ code: 3, out: '' });
  expect(run.err).toContain('line 4: there is no organisation birch');
  expect(run.err).toMatch(/next {2}headgate key create --from keys\.csv --command-id \S+\n/);
});

test('keys of an answer that was lost are shown without their values: exit 1', async () => {
  server.answer = () => ({
    body: { items: [{ id: 'key-1', organisation: 'acme', name: 'k0' }], position: 9, repeated: true },
  });
  const run = await cli(['--from', file(lines(1))]);
  expect([run.code, run.out]).toEqual([1, 'id,organisation,name,value\nkey-1,acme,k0,\n']);
  expect(run.err).toContain('headgate key revoke');
});

test.each<[what: string, lines: string[], words: string[], why: string]>([
  ['no header', [], [], 'does not begin with the line organisation,name,expires'],
  ['a line that is no key', ['acme,a,30d', 'acme,b,soon'], [], 'line 3: expires'],
  ['a cell too many', ['acme,a,30d,x'], [], 'line 2: it has 4 cells'],
  ['no keys', [''], [], 'has no keys'],
  ['nothing left', ['acme,a,30d'], ['--skip-lines', '1'], '--skip-lines leaves none'],
  ['a key of its own', ['acme,a,30d'], ['--org', 'acme'], '--org <id> is not for --from'],
  ['names alone', ['acme,a,30d'], ['-o', 'name'], '-o name cannot show keys'],
  ['a position for several commands', lines(1001), ['--if-at', '3'], '--if-at holds for one command'],
])('%s: nothing is sent', async (what, text, words, why) => {
  const from = file(text);
  if (what === 'no header') writeFileSync(join(folder, from), 'acme,a,30d\n');
  const run = await cli(['--from', from, ...words]);
  expect([run.code, run.out, server.seen.length]).toEqual([2, '', 0]);
  expect(run.err).toContain(why);
});

test.each([
  [[], "required option '--org <id>' not specified"],
  [['--org', 'acme', '--name', 'n'], "required option '--expires <choice>' not specified"],
  [['--org', 'acme', '--name', 'n', '--expires', '30d', '--skip-lines', '2'], '--skip-lines is for --from'],
])('without a file %j is refused', async (words, why) => {
  const run = await cli(words);
  expect([run.code, run.out, server.seen.length]).toEqual([2, '', 0]);
  expect(run.err).toContain(why);
});

test('tokens of the nodes of a file are created in the same way', async () => {
  server.answer = ({ body }) => {
    const items = (body as { readonly items: readonly { readonly node: string }[] }).items;
    return {
      body: { items: items.map(({ node }, n) => ({ id: `tok-${n}`, node, value: `v-${n}` })), position: 9 },
    };
  };
  writeFileSync(join(folder, 'nodes.csv'), 'node\npool-1\npool-2\n');
  const tokens = (...words: string[]) => ask(['node', 'token', 'create', ...words]);
  const run = await tokens('--from', 'nodes.csv');
  expect([run.code, run.out]).toEqual([0, 'id,node,value\ntok-0,pool-1,v-0\ntok-1,pool-2,v-1\n']);
  expect(server.seen).toMatchObject([
    { method: 'POST', path: '/tokens', body: { items: [{ node: 'pool-1' }, { node: 'pool-2' }] } },
  ]);
  expect(run.err).toContain('tokens created: 2');
  const refused = [[], ['n1', '--from', 'nodes.csv'], ['n1', '--skip-lines', '2'], ['--from', 'keys.csv']];
  for (const words of refused) expect([words, (await tokens(...words)).code]).toEqual([words, 2]);
  expect(server.seen).toHaveLength(1);
});
