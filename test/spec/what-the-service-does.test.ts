/**
 * Tests the chapter "What the service does" of the specification: operations, capacity, keys, hosts, and the common error
 * envelope.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { call, chat, expectRefusal, refusalOf } from '../support/api.ts';
import { startFleet, type TestFleet } from '../support/fleet.ts';
import { specFleet, stackHost, stacks } from '../support/spec-fleet.ts';
import { askedDuring, usageReaches } from '../support/witness.ts';

let fleet: TestFleet;
let port: number;
let acme: string;
let birch: string;
beforeAll(async () => {
  fleet = await startFleet({
    fleet: specFleet,
    gateway: { stackPorts: [{ stack: stacks.otter, port: 0 }] },
  });
  port = fleet.port();
  acme = (await fleet.key('acme')).value;
  birch = (await fleet.key('birch')).value;
  await fleet.settle();
});
afterAll(() => fleet.close());

test.each([
  { what: 'the pool', model: 'echo-large', host: '127.0.0.1', node: 'pool-1' },
  { what: "the organisation's own node", model: 'echo-private', host: '127.0.0.1', node: 'acme-1' },
  { what: 'the stack', model: 'echo-large', host: stackHost('otter'), node: 'acme-s1' },
])(
  'What the service does 2, Routing rule 2, Routing rule 4: a request runs on one node of $what',
  async ({ model, host, node }) => {
    const asked = await askedDuring(fleet, () => chat({ port, key: acme, model, host }));
    expect(asked).toEqual({ [node]: 1 });
  },
);

test('What the service does 3: a key’s requests count for its one organisation', async () => {
  const elder = (await fleet.key('elder')).value;
  await fleet.settle();
  const answer = await chat({ port, key: elder, model: 'echo-small' });
  const { total_tokens: tokens } = JSON.parse(answer.content).usage;
  expect(await usageReaches(fleet, 'elder', 1)).toEqual({ totalTokens: tokens, requests: 1 });
});

test.each(['127.0.0.1', 'localhost', 'LOCALHOST', 'localhost.', 'localhost:443', '127.0.0.1:1'])(
  'What the service does 4: %s is the shared host',
  async (host) => {
    expect((await call({ port, host })).status).toBe(200);
  },
);

test.each([
  `${stacks.otter}.stacks.test`,
  `${stacks.otter}.stacks.test.`,
  `${stacks.otter}.stacks.test:8443`,
  `${stacks.otter.toUpperCase()}.STACKS.Test`,
])('What the service does 4: %s is a stack’s host', async (host) => {
  const asked = await askedDuring(fleet, async () => {
    expect((await chat({ port, key: acme, model: 'echo-large', host })).status).toBe(200);
  });
  expect(asked).toEqual({ 'acme-s1': 1 });
});

test.each([
  '',
  'example.org',
  'stacks.test',
  '.stacks.test',
  'otter.stacks.test',
  `www.${stacks.otter}.stacks.test`,
  `${stacks.otter}.stacks.test.example.org`,
  `${stacks.otter}stacks.test`,
  `${stacks.otter}.localhost`,
  'localhost..',
  '[::1]',
  '127.0.0.1@example.org',
  'locаlhost',
])('What the service does 4: "%s" is not a host of the service', async (host) => {
  const error = expectRefusal(await call({ port, host, key: acme }), 'NotFoundError');
  expect(error.path).toBe('/v1/models');
});

test.each([
  'X-Forwarded-Host',
  'X-Original-Host',
  'X-Host',
  'Forwarded',
  'X-Forwarded-Server',
  'X-HTTP-Host-Override',
])('What the service does 4: %s does not choose the host', async (name) => {
  const value = name === 'Forwarded' ? `host=${stackHost('otter')}` : stackHost('otter');
  const asked = await askedDuring(fleet, () =>
    chat({ port, key: acme, model: 'echo-large', headers: { [name]: value } }),
  );
  expect(asked).toEqual({ 'pool-1': 1 });
});

test.each(['localhost', 'example.org', stackHost('heron')])(
  'What the service does 4: a stack’s port serves that stack, even with the Host %s',
  async (host) => {
    const own = Number(new URL(fleet.gateways[0]?.stacks[0]?.url ?? '').port);
    expectRefusal(await call({ port: own, host }), 'Unauthorized');
    const asked = await askedDuring(fleet, async () => {
      expect((await chat({ port: own, host, key: acme, model: 'echo-large' })).status).toBe(200);
      expectRefusal(
        await chat({ port: own, host, key: birch, model: 'echo-large' }),
        'TargetNotServingError',
      );
    });
    expect(asked).toEqual({ 'acme-s1': 1 });
  },
);

test('What the service does 5: every kind of refusal uses one envelope', async () => {
  const refused = [
    await call({ port, host: 'example.org' }),
    await call({ port, path: '/v1/nothing', key: acme }),
    await chat({ port, model: 'echo-small' }),
    await chat({ port, key: acme, model: 'echo-bare' }),
    await chat({ port, key: acme, model: 'echo-idle' }),
    await chat({ port, key: acme, model: 'echo-small', host: stackHost('otter') }),
    await chat({ port, key: birch, model: 'echo-locked' }),
    await call({ port, key: acme, method: 'POST', path: '/v1/chat/completions', body: '{' }),
    await call({ port, path: '/v1/models', headers: { Expect: 'miracles' } }),
  ].map(refusalOf);
  expect(refused.map(({ type }) => type)).toEqual([
    'NotFoundError',
    'NotFoundError',
    'Unauthorized',
    'DedicatedOnlyModelError',
    'InferenceUnavailableError',
    'TargetNotServingError',
    'ModelNotInPlanError',
    'UnsupportedShapeError',
    'UnsupportedShapeError',
  ]);
});
