// Tests that the last hour's activity shows an organisation and the operator what the gateways answered, even if the control
// plane started later. Uses a fleet in one process, and requests of each kind.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { operatorToken, quiet, startFleet, type TestFleet } from '../../test/support/fleet.ts';
import { completion } from '../../test/support/process-fleet.ts';
import { until } from '../../test/support/until.ts';
import { DevAdmin } from '../../tools/dev/dev-admin.ts';
import { startControlPlane } from '../main.ts';

const organisation = 'acme';
const stack = 'stk-amber-otter-9k2f';
const path = `/organisations/${organisation}/activity` as const;

let fleet: TestFleet;
beforeAll(async () => {
  const gateway = { stackPorts: [{ stack, port: 0 }] };
  fleet = await startFleet({ gateway });
});
afterAll(() => fleet.close());

async function ask(api: string, key: string, model = 'no-such-model'): Promise<string> {
  const answer = await completion(api, key, { model });
  await answer.text();
  return answer.headers.get('x-request-id') ?? '';
}

test('refusals are counted by organisation and type, with the newest request, and a stack’s callers by key', async () => {
  const { id: key, value } = await fleet.key(organisation);
  await fleet.settle();
  const api = fleet.gateways[0]?.api ?? '';
  await ask(api, value);
  const last = await ask(api, value);
  await ask(api, 'hg_unknown');
  await ask(fleet.gateways[0]?.stacks[0]?.url ?? '', value, 'echo-large');
  await until(async () => (await fleet.admin.call('GET', path)).callers.length === 1, 20_000);
  const own = await fleet.admin.call('GET', path);
  expect(own).toMatchObject({
    refusals: [{ requests: 2, lastRequest: last }],
    callers: [{ stack, surface: 'openai', key, requests: 1 }],
    unanswered: [],
  });
  expect(own).not.toHaveProperty('partial');
  const { refusals } = await fleet.admin.call('GET', '/activity');
  expect(refusals).toEqual([
    { organisation, ...own.refusals[0] },
    expect.objectContaining({ status: 401, type: 'Unauthorized', requests: 1 }),
  ]);
});

test('a control plane that starts later reports the same hour', async () => {
  const later = await startControlPlane({
    ...{ logUrl: fleet.logUrl, dataDir: `${fleet.dir}/later`, name: 'control-plane-2', bind: '127.0.0.1' },
    ...{ port: 0, metricsPort: 0, operatorToken, gatewayToken: operatorToken, logger: quiet },
  });
  try {
    const { refusals } = await fleet.admin.call('GET', '/activity');
    const admin = new DevAdmin(later.admin, operatorToken);
    await until(
      async () => (await admin.call('GET', '/activity')).refusals.length === refusals.length,
      20_000,
    );
    expect((await admin.call('GET', '/activity')).refusals).toEqual(refusals);
  } finally {
    await later.close();
  }
});
