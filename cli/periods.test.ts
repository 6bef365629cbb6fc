/** Tests that a new anchor day starts a new billing period, and discards the current period's usage only with --force. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { operatorToken, startFleet, type TestFleet } from '../test/support/fleet.ts';
import { type CliRun, runCli } from '../test/support/run-cli.ts';
import { until } from '../test/support/until.ts';

let fleet: TestFleet;
const day = (offset: number): string => new Date(Date.now() + offset * 86_400_000).toISOString().slice(0, 10);
let used = 0;

function run(line: string): Promise<CliRun> {
  const env = { HEADGATE_ADMIN: fleet.controlPlane.admin, HEADGATE_TOKEN: operatorToken };
  return runCli(line.split(' '), { env });
}
async function usage(period: string): Promise<Record<string, unknown>> {
  return JSON.parse((await run(`usage show --org acme${period} -o json`)).out);
}

beforeAll(async () => {
  fleet = await startFleet({ gateways: 2 });
  const { value } = await fleet.key('acme');
  await fleet.settle();
  const answer = await fetch(`http://127.0.0.1:${fleet.port()}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${value}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'echo-large', messages: [{ role: 'user', content: 'hello' }] }),
  });
  expect(answer.status).toBe(200);
  await answer.text();
  await until(async () => {
    const { tokens } = await fleet.admin.call('GET', '/organisations/acme/limits');
    used = tokens.used;
    return used > 0 && Number((await usage(''))['totalTokens']) > 0;
  }, 20_000);
}, 60_000);
afterAll(() => fleet.close());

test('a new anchor day that discards usage needs --force, and both periods are shown', async () => {
  const before = await usage('');
  const yesterday = day(-1);
  const refused = await run(`org set acme --anchor ${yesterday}`);
  expect(refused.code).toBe(6);
  expect(refused.err).toContain(`acme has used ${used} tokens in the period from ${before['period']}`);
  expect(refused.err).toContain('--force');
  expect(await usage('')).toEqual(before);
  const file = await run('export');
  const changed = file.out.replace(/(id: acme\n(?:.*\n){1,4}? +anchor: ).*/, `$1${yesterday}`);
  expect(changed).not.toBe(file.out);
  const env = { HEADGATE_ADMIN: fleet.controlPlane.admin, HEADGATE_TOKEN: operatorToken };
  expect((await runCli(['apply', '-f', '-'], { env, stdin: changed })).code).toBe(6);
  const dry = await run(`org set acme --anchor ${yesterday} --force --dry-run`);
  expect([dry.code, dry.err]).toEqual([0, expect.stringContaining('do not count')]);
  const forced = await run(`org set acme --anchor ${yesterday} --force`);
  expect([forced.code, forced.err]).toEqual([0, expect.stringContaining('warning: acme has used')]);
  const after = await run('usage show --org acme');
  expect(after.err).toContain(`billing period from ${yesterday}`);
  expect(after.err).toContain(`other periods: ${before['period']}`);
  expect(await usage(` --period ${before['period']}`)).toMatchObject({ totalTokens: before['totalTokens'] });
});

test('another anchor in the same period or without usage needs no force', async () => {
  expect((await run(`org set birch --anchor ${day(-2)}`)).code).toBe(0);
  const { period } = await usage('');
  const sameDay =
    new Date(Date.parse(String(period)) - 365 * 86_400_000).toISOString().slice(0, 8) +
    String(period).slice(8);
  expect((await run(`org set acme --anchor ${sameDay}`)).code).toBe(0);
});

test('a day on which no period begins is refused, with a list of valid days', async () => {
  const { period } = await usage('');
  const other = new Date(Date.parse(String(period)) + 5 * 86_400_000).toISOString().slice(0, 10);
  const { code, err } = await run(`usage show --org acme --period ${other}`);
  expect([code, err]).toEqual([2, expect.stringContaining(`no billing period of acme begins on ${other}`)]);
  expect(err).toContain(`with usage: `);
  expect(err).toContain(String(period));
});

test.each([
  '/usage/export?from=2026-11-20&to=2026-11-20',
  '/usage/export?from=2026-11-21&to=2026-11-20',
  '/keys?state=zzz',
  '/nodes?state=active',
  '/organisations?state=up',
])('GET %s is refused', async (path) => {
  await expect(fleet.admin.call('GET', path)).rejects.toMatchObject({ status: 400 });
});
