/**
 * Tests that a command that would refuse much of the last hour's traffic needs `--force`, unless refusing traffic is the
 * command's purpose.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { chat } from '../support/api.ts';
import { operatorToken, startFleet, type TestFleet } from '../support/fleet.ts';
import { type CliRun, runCli } from '../support/run-cli.ts';
import { specFleet } from '../support/spec-fleet.ts';
import { until } from '../support/until.ts';

let fleet: TestFleet;
const requests = 60;
const organisations = ['acme', 'cedar'];
let keys: string[] = [];

beforeAll(async () => {
  fleet = await startFleet({ fleet: specFleet });
  keys = await asked(fleet);
}, 240_000);
afterAll(() => fleet.close());

/** Sends requests with a key of each organisation and waits until the gateways have reported them. */
async function asked(of: TestFleet): Promise<string[]> {
  const made: string[] = [];
  for (const organisation of organisations) {
    const key = (await of.key(organisation)).value;
    made.push(key);
    for (let n = 0; n < requests; n++)
      expect((await chat({ port: of.port(), host: '127.0.0.1', key, model: 'echo-small' })).status).toBe(200);
  }
  await until(async () => (await counted(of)) >= 2 * requests, 60_000);
  return made;
}

async function counted({ admin }: TestFleet): Promise<number> {
  const { steps } = (await admin.call('GET', '/traffic')) as { steps: { requestsPerSecond: number }[] };
  return Math.round(steps.reduce((sum, { requestsPerSecond }) => sum + 10 * requestsPerSecond, 0));
}

const cliOf =
  ({ controlPlane: { admin } }: TestFleet) =>
  (...argv: string[]): Promise<CliRun> =>
    runCli(argv, { env: { HEADGATE_ADMIN: admin, HEADGATE_TOKEN: operatorToken } });

test('Effect: a command that would refuse an organisation’s requests is refused with figures unless forced', async () => {
  const cli = cliOf(fleet);
  const position = await fleet.admin.position();
  const run = await cli('org', 'set', 'cedar', '--no-tier', '-o', 'json');
  expect(run.err + run.out).toContain(
    `this would refuse ${requests} of ${2 * requests} requests served in the last hour; all requests of cedar would be refused`,
  );
  expect([run.code, await fleet.admin.position()]).toEqual([6, position]);
  expect(keys.filter((key) => (run.err + run.out).includes(key))).toEqual([]);
  expect((await cli('org', 'set', 'cedar', '--name', 'Cedar and sons')).code).toBe(0);
  expect((await cli('key', 'create', '--org', 'cedar', '--name', 'another', '--expires', '90d')).code).toBe(
    0,
  );
  expect((await cli('org', 'suspend', 'acme', '--yes')).code, 'it is meant').toBe(0);
  expect((await cli('org', 'set', 'cedar', '--no-tier', '--force')).code).toBe(0);
});

test('Effect: a gateway that does not respond is judged by its reports, and the absence of traffic is stated', async () => {
  const silent = await startFleet({ fleet: specFleet });
  try {
    const cli = cliOf(silent);
    const idle = await cli('org', 'set', 'cedar', '--tier', 'Pro');
    expect([idle.code, idle.err]).toEqual([
      0,
      expect.stringMatching(/^warning: no gateway served a request in the last hour/),
    ]);
    await asked(silent);
    await silent.gateways[0]?.close();
    const run = await cli('org', 'set', 'cedar', '--no-tier');
    expect(run.code).toBe(6);
    expect(run.err).toContain(`this would refuse ${requests} of ${2 * requests} requests`);
    const effect = await cli('org', 'set', 'acme', '--no-tier', '--effect');
    expect([effect.code, effect.out]).toEqual([1, expect.stringContaining('all of them refused')]);
    expect((await cli('org', 'suspend', 'acme', '--yes')).code, 'it is never held up').toBe(0);
  } finally {
    await silent.close();
  }
}, 240_000);
