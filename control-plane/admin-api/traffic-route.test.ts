// Tests that the traffic plots show what the gateways answered, to everyone who may see it and to nobody else. Uses a fleet
// in one process and requests of two organisations, and reads the plots only after every gateway must have reported.
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { OperationAnswer } from '../../schemas/admin/admin.ts';
import { askAdmin } from '../../test/support/ask-admin.ts';
import { startFleet, type TestFleet } from '../../test/support/fleet.ts';
import { statusWith } from '../../test/support/process-fleet.ts';
import { until } from '../../test/support/until.ts';

const stack = 'stk-amber-otter-9k2f';
const stackOfOthers = 'stk-quiet-heron-4m7q';
let fleet: TestFleet;

const ask = (api: string, key: string, model: string): Promise<number> => statusWith(api, key, { model });

beforeAll(async () => {
  const gateway = { stackPorts: [{ stack, port: 0 }] };
  fleet = await startFleet({ gateway });
  const { value: ofAcme } = await fleet.key('acme');
  const { value: ofBirch } = await fleet.key('birch');
  await fleet.settle();
  const { api = '', stacks = [] } = fleet.gateways[0] ?? {};
  for (let at = 0; at < 3; at++) expect(await ask(api, ofAcme, 'echo-small')).toBe(200);
  expect(await ask(stacks[0]?.url ?? '', ofAcme, 'echo-large')).toBe(200);
  expect(await ask(stacks[0]?.url ?? '', ofBirch, 'echo-large')).not.toBe(200);
  expect(await ask(api, ofBirch, 'echo-small')).toBe(200);
  await until(async () => (await requestsIn('')) === 6, 60_000);
}, 120_000);
afterAll(() => fleet.close());

type Traffic = OperationAnswer<'traffic.get'>;

function read(query: string, person?: string): Promise<Response> {
  return askAdmin(fleet.controlPlane.admin, `/traffic${query}`, { as: person });
}

async function requestsIn(query: string, person?: string): Promise<number> {
  const { steps, stepSeconds } = (await (await read(query, person)).json()) as Traffic;
  return Math.round(steps.reduce((sum, step) => sum + step.requestsPerSecond * stepSeconds, 0));
}

test('requests are counted for their organisation, stack and gateway', async () => {
  expect(await requestsIn('?organisation=acme')).toBe(4);
  expect(await requestsIn(`?stack=${stack}`)).toBe(2);
  expect(await requestsIn(`?stack=${stack}&organisation=acme`)).toBe(1);
  expect(await requestsIn('?gateway=gateway-1')).toBe(6);
  expect(await requestsIn('?gateway=gateway-2')).toBe(0);
  const { nodes = [], since, unanswered } = (await (await read('')).json()) as Traffic;
  expect([Date.parse(since) > 0, unanswered]).toEqual([true, []]);
  let answered = 0;
  for (const { id } of await fleet.admin.nodes()) answered += await requestsIn(`?node=${id}`);
  expect(answered).toBe(5);
  expect(nodes.length).toBeGreaterThan(0);
});

test('a member reads only the figures of their own organisation', async () => {
  expect(await requestsIn('?organisation=acme', 'ana')).toBe(4);
  // The figures exclude requests that other organisations made to the stack.
  expect(await requestsIn(`?stack=${stack}`, 'ana')).toBe(1);
  const own = (await (await read('?organisation=acme', 'ana')).json()) as Traffic;
  expect(own).not.toHaveProperty('nodes');
  expect(own.steps.some((step) => step.inFlight !== undefined)).toBe(false);
  const others = [
    ...['', '?organisation=birch', `?stack=${stackOfOthers}`, '?stack=stk-quiet-heron-2b2b'],
    ...['?gateway=gateway-1', '?organisation=acme&gateway=gateway-1', '?organisation=acme&node=pool-1'],
    ...[`?organisation=birch&stack=${stack}`, `?organisation=acme&stack=${stackOfOthers}`],
  ];
  for (const query of others) expect([query, (await read(query, 'ana')).status]).toEqual([query, 403]);
});
