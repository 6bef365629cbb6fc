/** Tests the fleet as a file: apply, diff, export and validate. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { parse } from 'yaml';
import { cliOf, errorAnswer, useAdminServer } from '../test/support/admin-server.ts';
import { folderOfFile } from '../test/support/folders.ts';
import { runCli } from '../test/support/run-cli.ts';

const server = useAdminServer();
const folder = folderOfFile('cli');
const fleet = { version: 1, models: [{ id: 'm1', family: 'echo', weight: 1 }] };
beforeAll(() => {
  writeFileSync(join(folder, 'fleet.yaml'), 'version: 1\nmodels: [{ id: m1, family: echo, weight: 1 }]\n');
  writeFileSync(
    join(folder, 'bad.yaml'),
    'version: 1\nmodels:\n  - { id: "m 1", family: echo }\npool: { nods: [] }\n',
  );
});

const cli = cliOf(server, { cwd: folder });

const changes = [
  { action: 'create', kind: 'model', id: 'm1' },
  { action: 'change', kind: 'tier', id: 'Pro', fields: ['concurrency', 'models'] },
];
const removal = { action: 'remove', kind: 'node', id: 'n1' };

test('apply sends the document and prints each change', async () => {
  server.answer = () => ({ body: { changes, position: 4 } });
  const run = await cli('apply -f fleet.yaml --if-at 3');
  expect(run).toMatchObject({ code: 0, out: 'model m1 created\ntier Pro changed (concurrency, models)\n' });
  expect(run.err).toContain('position 4');
  expect(server.seen).toHaveLength(1);
  expect(server.seen[0]).toMatchObject({ method: 'POST', path: '/fleet/apply', body: { fleet } });
  expect(server.seen[0]?.headers['if-match']).toBe('"3"');
});

test('apply reads stdin', async () => {
  server.answer = () => ({ body: { changes: [], unchanged: true, position: 4 } });
  await cli('apply -f -', { stdin: JSON.stringify(fleet) });
  expect(server.seen[0]?.body).toEqual({ fleet });
});

test('apply without changes prints unchanged and exits 0', async () => {
  const answer = { changes: [], unchanged: true, position: 4 };
  server.answer = () => ({ body: answer });
  expect(await cli('apply -f fleet.yaml')).toMatchObject({ code: 0, out: 'unchanged\n' });
  expect(JSON.parse((await cli('apply -f fleet.yaml -o json')).out)).toEqual(answer);
});

test('apply needs --yes only if it removes something', async () => {
  server.answer = () => ({ body: { changes: [...changes, removal], position: 4 } });
  const refused = await cli('apply -f fleet.yaml --prune');
  expect(refused).toMatchObject({ code: 2, out: '' });
  expect(refused.err).toContain('- node n1');
  expect(refused.err).toContain('--yes');
  expect(server.seen.map(({ path }) => path)).toEqual(['/fleet/diff']);
  server.seen.length = 0;
  expect((await cli('apply -f fleet.yaml --prune --yes')).out).toContain('node n1 removed');
  expect(server.seen.map(({ path }) => path)).toEqual(['/fleet/apply']);
  expect(server.seen[0]?.body).toEqual({ fleet, prune: true });
  server.answer = () => ({ body: { changes, position: 4 } });
  expect((await cli('apply -f fleet.yaml --prune')).code).toBe(0);
});

test('apply --dry-run prints what would change', async () => {
  server.answer = () => ({ body: { changes: [removal], position: 4 } });
  expect((await cli('apply -f fleet.yaml --prune --dry-run')).out).toBe('node n1 would be removed\n');
  expect(server.seen[0]?.query).toEqual({ dryRun: 'true', inParts: 'true' });
});

test('apply continues until no change remains and shows progress; only the first call has the position', async () => {
  const answers = [
    { changes: [changes[0]], remaining: 2, position: 4, warnings: ['w'] },
    { changes: [changes[1]], remaining: 1, position: 6, warnings: ['w'] },
    { changes: [removal], position: 7 },
  ];
  server.answer = () => ({ body: answers.shift() ?? {} });
  const run = await cli('apply -f fleet.yaml --if-at 3 --command-id command-of-mine -o json');
  expect(JSON.parse(run.out)).toEqual({ changes: [...changes, removal], position: 7, warnings: ['w'] });
  expect(run.err).toContain('applied 1 of 3 changes, at position 4\napplied 2 of 3 changes, at position 6\n');
  expect(run.err.match(/warning: w/g)).toHaveLength(1);
  expect(server.seen.map(({ query, body }) => [query, body])).toEqual(
    Array.from({ length: 3 }, () => [{ inParts: 'true' }, { fleet }]),
  );
  const headers = (name: string) => server.seen.map((seen) => seen.headers[name]);
  expect(headers('if-match')).toEqual(['"3"', undefined, undefined]);
  expect(headers('idempotency-key')[0]).toBe('command-of-mine');
  expect(new Set(headers('idempotency-key')).size).toBe(3);
});

test('an apply refused in the middle says that the rest is not applied, and exits with the refusal’s code', async () => {
  const answers = [{ body: { changes, remaining: 1, position: 4 } }, errorAnswer(409, 'Conflict')];
  server.answer = () => answers.shift() ?? errorAnswer(500, 'InternalError');
  const run = await cli('apply -f fleet.yaml');
  expect(run).toMatchObject({ code: 6, out: '' });
  expect(run.err).toContain('run the same command again to continue');
});

test('apply continues after its own earlier attempt, but not after one with an older command id', async () => {
  const repeated = { changes: [], repeated: true, position: 4 };
  const answers = [repeated, { changes, position: 5 }];
  server.answer = () => ({ body: answers.shift() ?? repeated });
  expect((await cli('apply -f fleet.yaml')).out).toContain('model m1 created');
  server.seen.length = 0;
  expect((await cli('apply -f fleet.yaml --command-id command-of-mine')).out).toBe('unchanged\n');
  expect(server.seen).toHaveLength(1);
});

test('apply --atomic requests a single commit', async () => {
  server.answer = () => errorAnswer(413, 'CommandTooLarge');
  expect(await cli('apply -f fleet.yaml --atomic')).toMatchObject({ code: 2, out: '' });
  expect(server.seen.map(({ query }) => query)).toEqual([{}]);
});

test('diff exits 0 if nothing would change and 1 otherwise', async () => {
  server.answer = () => ({ body: { changes: [], position: 4 } });
  expect(await cli('diff -f fleet.yaml')).toMatchObject({ code: 0, out: '' });
  server.answer = () => ({ body: { changes: [...changes, removal], position: 4 } });
  expect(await cli('diff -f fleet.yaml --prune')).toMatchObject({
    code: 1,
    out: '+ model m1\n~ tier Pro (concurrency, models)\n- node n1\n',
  });
  expect(server.seen[1]).toMatchObject({ path: '/fleet/diff', body: { fleet, prune: true } });
});

test.each([
  [500, 'InternalError', 2],
  [401, 'Unauthorized', 4],
  [503, 'LogUnavailable', 7],
])('a diff error is never mistaken for a difference: %i %s exits %i', async (status, type, code) => {
  server.answer = () => errorAnswer(status, type);
  expect(await cli('diff -f fleet.yaml')).toMatchObject({ code, out: '' });
});

test.each(['apply', 'diff', 'validate'])(
  '%s prints every fault as FILE:LINE:COL and exits 2',
  async (verb) => {
    const run = await cli(`${verb} -f bad.yaml`);
    expect(run).toMatchObject({ code: 2, out: '' });
    expect(run.err).toMatch(/^bad\.yaml:3:11 .+\nbad\.yaml:4:\d+ .+\n/);
    expect(server.seen).toEqual([]);
  },
);

test('validate needs neither a control plane nor a token', async () => {
  const run = await runCli(['validate', '-f', 'fleet.yaml'], { cwd: folder });
  expect(run).toMatchObject({ code: 0, out: 'fleet.yaml is valid\n', err: '' });
});

test('a tier too small for one request of its model causes a warning in validate and on writes', async () => {
  const tiers = [{ id: 'Tiny', concurrency: 2, models: '*' }];
  const models = [{ id: 'm1', family: 'echo', weight: 4 }];
  const stdin = JSON.stringify({ version: 1, models, tiers, anonymous: { freeTurns: 1, models: '*' } });
  const said =
    /^warning: a request for m1 counts as 4, but the tier Tiny allows 2 in flight, .+--concurrency 4/;
  const valid = await cli('validate -f -', { stdin });
  expect(valid).toMatchObject({ code: 0, out: '- is valid\n' });
  expect(valid.err).toMatch(said);
  server.answer = () => ({
    body: { id: 'Tiny', changes: [], unchanged: true, position: 4, warnings: ['w'] },
  });
  for (const line of ['apply -f -', 'tier set Tiny --models *'])
    expect((await cli(line, { stdin })).err).toContain('warning: w\n');
});

test('export prints YAML unless another format is requested', async () => {
  server.answer = () => ({ body: fleet });
  const run = await cli('export --at 3');
  expect(run.code).toBe(0);
  expect(run.out).toMatch(/^version: 1\n/);
  expect(parse(run.out)).toEqual(fleet);
  expect(JSON.parse((await cli('export -o json')).out)).toEqual(fleet);
  expect(server.seen[0]).toMatchObject({ path: '/fleet', query: { at: '3' } });
});
