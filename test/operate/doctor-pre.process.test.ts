/** Faults that `doctor` finds without a control plane, and faults of processes that no control plane trusts. */
import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Check, checksIn, isFault } from '../support/checks.ts';
import { type Plane, ProcessFleet } from '../support/process-fleet.ts';
import { until } from '../support/until.ts';

const fixture = (name: string): string => new URL(`../fixtures/tls/${name}`, import.meta.url).pathname;
const fleet = new ProcessFleet();
let plane: Plane;

beforeAll(async () => {
  plane = await fleet.serve('control-plane', 'cp');
  await fleet.serve('gateway', 'gw');
  await fleet.serve('gateway', 'gw-of-another-token', [], {
    HEADGATE_GATEWAY_TOKEN: 'another-gateway-token-0001',
  });
}, 120_000);
afterAll(() => fleet.close());

async function checks(args: readonly string[], env: Record<string, string> = {}): Promise<readonly Check[]> {
  const { stdout, stderr } = await fleet.cli(['doctor', '-o', 'json', ...args], env);
  if (stdout === '') throw new Error(stderr);
  return checksIn(stdout);
}

const codes = (found: readonly Check[]) =>
  found.filter(isFault).map(({ code, object }) => [code, object].filter(Boolean).join(' '));

test('a gateway whose reports lack the token’s MAC is named as it calls itself', async () => {
  const ask = () => checks(['--only', 'log'], { HEADGATE_ADMIN: plane.ready.admin });
  await until(async () => (await ask()).some(({ text }) => text.includes('gw-of-another-token')), 60_000);
  const [finding] = (await ask()).filter(({ text }) => text.includes('gw-of-another-token'));
  expect(finding).toMatchObject({ code: 'HG2016', level: 'fail', object: 'headgate.status' });
});

test('a data folder opened to others is found while its process runs', async () => {
  const data = join(fleet.dir, 'cp');
  const ask = async () =>
    codes((await checks(['--pre', '--data', data])).filter(({ code }) => code === 'HG1010'));
  expect(await ask()).toEqual([]);
  chmodSync(data, 0o755);
  chmodSync(join(data, 'usage.db'), 0o644);
  expect(await ask()).toEqual([`HG1010 ${data}`, `HG1010 ${join(data, 'usage.db')}`]);
});

test.each<[string, (dir: string) => string]>([
  ['under a file', (dir) => join(dir, 'a-file', 'data')],
  ['that is a file', (dir) => join(dir, 'a-file')],
  ['in a system file system', () => '/proc/headgate/data'],
])('a data folder %s cannot be created', async (_, path) => {
  writeFileSync(join(fleet.dir, 'a-file'), '');
  const data = path(fleet.dir);
  expect(codes(await checks(['--pre', '--data', data]))).toContain(`HG1006 ${data}`);
});

test('a missing data folder passes if it can be created', async () => {
  const found = await checks(['--pre', '--data', join(fleet.dir, 'not', 'there', 'yet')]);
  expect(codes(found).filter((each) => each.startsWith('HG1006'))).toEqual([]);
});

const log = (found: readonly Check[]) => found.filter(({ code }) => code.startsWith('HG2'));

test.each<[string, string, string]>([
  ['brokers that are not running', 'kafka://127.0.0.1:1', 'fail'],
  ['an invalid address', 'kafka:/127.0.0.1', 'fail'],
  ['a folder that cannot be created', 'sqlite:/proc/headgate/log', 'fail'],
  ['the log of this fleet', fleet.logUrl, 'ok'],
  ['no log', '', 'none'],
])(
  'before a start, doctor checks %s',
  async (_, url, level) => {
    const found = log(await checks(['--pre'], { HEADGATE_LOG: url }));
    expect(found.map((each) => [each.code, each.level])).toEqual(level === 'none' ? [] : [['HG2001', level]]);
    expect(log(await checks(['--pre', '--skip', 'log'], { HEADGATE_LOG: url }))).toEqual([]);
  },
  60_000,
);

test.each<[string, Record<string, string>, string]>([
  ['its own key', { HEADGATE_TLS_CERT: fixture('first.pem'), HEADGATE_TLS_KEY: fixture('first.key') }, 'ok'],
  [
    'another certificate’s key',
    { HEADGATE_TLS_CERT: fixture('first.pem'), HEADGATE_TLS_KEY: fixture('second.key') },
    'fail',
  ],
  ['no key', { HEADGATE_TLS_CERT: fixture('first.pem') }, 'fail'],
  ['no certificate', {}, 'none'],
])('before a start, doctor checks a certificate with %s', async (_, env, level) => {
  const found = (await checks(['--pre'], env)).filter(({ code }) => code.startsWith('HG8'));
  expect(found.map((each) => [each.code, each.level])).toEqual(level === 'none' ? [] : [['HG8001', level]]);
});
