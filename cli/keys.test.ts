/** Tests secrets that are printed only once, and the wait that confirms a revocation. */
import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { cliOf, errorAnswer, useAdminServer } from '../test/support/admin-server.ts';
import { folderOfFile } from '../test/support/folders.ts';
import type { CliRun } from '../test/support/run-cli.ts';
import { takeMonotonicClock } from '../test/support/status-reports.ts';

const server = useAdminServer();
const folder = folderOfFile('cli');
afterEach(() => {
  vi.restoreAllMocks();
});
beforeEach(() => {
  server.answer = () => ({ body: key });
});

const ask = cliOf(server, { cwd: folder });
const cli = (line: string, more: string[] = []): Promise<CliRun> => ask([...line.split(' '), ...more]);

const value = `hg_${'Ab3'.repeat(13)}x`;
const key = { id: 'key-1', organisation: 'acme', name: 'ci', expires: '30d', value, position: 9 };
const create = 'key create --org acme --name ci --expires 30d';

test('key create prints the value alone on stdout, and the rest on stderr', async () => {
  const run = await cli(create);
  expect(run).toMatchObject({ code: 0, out: `${value}\n` });
  expect(run.err).toContain('key key-1 "ci" of acme, expires: 30d');
  expect(run.err).not.toContain(value);
  expect(server.seen[0]?.body).toEqual({ organisation: 'acme', name: 'ci', expires: '30d' });
});

test('key create -o json adds the value to the key', async () => {
  expect(JSON.parse((await cli(create, ['-o', 'json'])).out)).toEqual(key);
});

test('key create -o name is refused before sending, because the value would be lost', async () => {
  expect((await cli(create, ['-o', 'name'])).code).toBe(2);
  expect(server.seen).toEqual([]);
});

test('--out writes the value only into a new private file', async () => {
  const run = await cli(create, ['--out', 'a.key', '-o', 'json']);
  const path = join(folder, 'a.key');
  expect(readFileSync(path, 'utf8')).toBe(`${value}\n`);
  expect(statSync(path).mode & 0o777).toBe(0o600);
  expect(run.out + run.err).not.toContain(value);
  expect(JSON.parse(run.out)).toMatchObject({ id: 'key-1', position: 9 });
  expect((await cli(create, ['--out', 'a.key'])).code).toBe(2);
  expect(server.seen).toHaveLength(1);
});

test('if the key is not created, no file is left behind', async () => {
  server.answer = () => errorAnswer(403, 'Forbidden');
  expect((await cli(create, ['--out', 'b.key'])).code).toBe(4);
  expect(existsSync(join(folder, 'b.key'))).toBe(false);
});

test('repeating a creation returns no value and exits 1 with the next step', async () => {
  const { value: _lost, ...rest } = key;
  server.answer = () => ({ body: rest });
  const run = await cli(create, ['--out', 'c.key']);
  expect(run).toMatchObject({ code: 1, out: '' });
  expect(run.err).toContain('headgate key revoke key-1');
  expect(existsSync(join(folder, 'c.key'))).toBe(false);
});

test('a dry run creates no value and is not a failure', async () => {
  const { value: _none, ...rest } = key;
  server.answer = () => ({ body: rest });
  expect((await cli(create, ['--dry-run'])).code).toBe(0);
});

test('node token create prints its value the same way', async () => {
  const token = `ngt_${'x'.repeat(43)}`;
  server.answer = () => ({ body: { id: 'tok-1', node: 'n1', value: token, position: 9 } });
  const run = await cli('node token create n1');
  expect(run).toMatchObject({ code: 0, out: `${token}\n` });
  expect(server.seen[0]).toMatchObject({ method: 'POST', path: '/nodes/n1/tokens' });
});

const revoked = { id: 'key-1', state: 'revoked', position: 9 };
const gateway = (name: string, confirmed: boolean, seconds: number) => ({ name, confirmed, seconds });

test('key revoke --wait exits 0 once every gateway has confirmed', async () => {
  const gateways = [gateway('gw-1', true, 0.2), gateway('gw-2', true, 0.4)];
  server.answer = ({ method }) => ({ body: method === 'POST' ? revoked : { complete: true, gateways } });
  const run = await cli('key revoke key-1 --yes --wait -o json');
  expect(run.code).toBe(0);
  expect(JSON.parse(run.out)).toEqual({
    ...revoked,
    gateways: [expect.objectContaining({ name: 'gw-1' }), expect.objectContaining({ name: 'gw-2' })],
  });
  expect(server.seen.map(({ path }) => path)).toEqual(['/keys/key-1/revoke', '/confirmations/9']);
});

test.each([
  '--wait key-1 --yes',
  '--yes --wait=60s key-1',
  'key-1 --wait 60s --yes',
  '--wait 60 key-1 --yes',
])('key revoke %s: arguments may come in any order', async (words) => {
  server.answer = ({ method }) => ({
    body: method === 'POST' ? revoked : { complete: true, gateways: [] },
  });
  expect((await cli(`key revoke ${words}`)).code).toBe(0);
  expect(server.seen[0]?.path).toBe('/keys/key-1/revoke');
  expect(Number(server.seen[1]?.query['timeoutSeconds'])).toBeLessThanOrEqual(60);
});

test('key revoke --wait names gateways that did not confirm in time, exits 5 and still prints the result', async () => {
  const gateways = [gateway('gw-1', true, 0.01), gateway('gw-2', false, 0.02)];
  server.answer = ({ method }) => ({ body: method === 'POST' ? revoked : { complete: false, gateways } });
  const run = await cli('key revoke key-1 --yes --wait=100ms -o json');
  expect(run.code).toBe(5);
  expect(JSON.parse(run.out).gateways[1]).toMatchObject({ name: 'gw-2', confirmed: false });
  expect(run.err).toContain('not confirmed within 0.1s by gw-2');
  expect(run.err).not.toContain('by gw-1');
});

test('key revoke --wait by default waits long enough for a silent gateway to confirm by time', async () => {
  const clock = takeMonotonicClock();
  let asked = 0;
  server.answer = ({ method }) => {
    if (method === 'POST') return { body: revoked };
    if (++asked === 1) clock.advanceSeconds(65);
    return { body: { complete: asked === 2, gateways: [gateway('gw-1', asked === 2, 5)] } };
  };
  expect((await cli('key revoke key-1 --yes --wait -o json')).code).toBe(0);
  expect(asked).toBe(2);
});

test('times count from the start of the wait, and a gateway that has confirmed keeps its time', async () => {
  let asked = 0;
  server.answer = ({ method }) => {
    if (method === 'POST') return { body: revoked };
    asked++;
    const gateways = [gateway('gw-1', true, asked * 50), gateway('gw-2', asked === 3, 50)];
    return { body: { complete: asked === 3, gateways } };
  };
  const { gateways } = JSON.parse((await cli('key revoke key-1 --yes --wait -o json')).out);
  expect(gateways[0].seconds).toBeGreaterThanOrEqual(50);
  expect(gateways[0].seconds).toBeLessThan(60);
  expect(gateways[1].seconds).toBeGreaterThan(50);
});

test('a control plane lost during the wait is asked again', async () => {
  server.answer = ({ method }) => {
    if (method === 'POST') return { body: revoked };
    if (server.seen.length < 3) return errorAnswer(503, 'LogUnavailable');
    return { body: { complete: true, gateways: [gateway('gw-1', true, 0.1)] } };
  };
  const run = await cli('key revoke key-1 --yes --wait=30s -o json');
  expect(run.code).toBe(0);
  expect(JSON.parse(run.out).gateways).toHaveLength(1);
});

test('with no control plane until the deadline, the revocation is unconfirmed and exits 5', async () => {
  server.answer = ({ method }) =>
    method === 'POST' ? { body: revoked } : errorAnswer(503, 'LogUnavailable');
  const run = await cli('key revoke key-1 --yes --wait=200ms -o json');
  expect(run.code).toBe(5);
  expect(JSON.parse(run.out)).toEqual({ ...revoked, gateways: [] });
});

test('a control plane that responds without waiting is not asked endlessly', async () => {
  const gateways = [gateway('gw-1', false, 0)];
  server.answer = ({ method }) => ({ body: method === 'POST' ? revoked : { complete: false, gateways } });
  expect((await cli('key revoke key-1 --yes --wait=1s -o json')).code).toBe(5);
  expect(server.seen.length).toBeLessThan(10);
});

test('a key that cannot be revoked is not waited for', async () => {
  server.answer = () => errorAnswer(404, 'NotFound');
  expect((await cli('key revoke key-1 --yes --wait')).code).toBe(3);
  expect(server.seen).toHaveLength(1);
});
