/**
 * Tests the chapter "Routing algorithm (shared host)" of the specification. Only the simulated nodes know which of them
 * answered.
 */

import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { AdminMethod } from '../../schemas/admin/admin-routes.ts';
import { parseBehaviour } from '../simulator/behaviour.ts';
import { type Answer, call, chat, expectRefusal, framesOf } from '../support/api.ts';
import { startFleet, type TestFleet } from '../support/fleet.ts';
import { slashModel, specFleet, stackHost } from '../support/spec-fleet.ts';
import { within } from '../support/until.ts';
import { askedDuring } from '../support/witness.ts';

type Organisation = 'acme' | 'birch' | 'cedar' | 'elder' | 'dormant';
let fleet: TestFleet;
let port: number;
const keys = {} as Record<Organisation, string>;
beforeAll(async () => {
  fleet = await startFleet({ fleet: specFleet });
  port = fleet.port();
  for (const organisation of ['acme', 'birch', 'cedar', 'elder', 'dormant'] as const)
    keys[organisation] = (await fleet.key(organisation)).value;
  await fleet.settle();
});
afterAll(() => fleet.close());
const healthy = parseBehaviour({});
afterEach(() => {
  for (const node of Object.values(fleet.nodes)) node.setBehaviour(healthy);
});

async function command(method: AdminMethod, path: string): Promise<void> {
  await fleet.admin.call(method, path);
  await fleet.settle();
}

test('Routing algorithm 1: the organisation’s own node always answers before the pool', async () => {
  const asked = await askedDuring(fleet, async () => {
    for (let i = 0; i < 20; i++)
      expect((await chat({ port, key: keys.acme, model: 'echo-small' })).status).toBe(200);
  });
  expect(asked).toEqual({ 'acme-1': 20 });
});

test('Routing algorithm 1: an own node answers even for a model outside the tier', async () => {
  const asked = await askedDuring(fleet, async () => {
    expect((await chat({ port, key: keys.elder, model: 'echo-large' })).status).toBe(200);
  });
  expect(asked).toEqual({ 'acme-s1': 1 });
});

test('Routing algorithm 1: an own node that currently serves nothing is passed over', async () => {
  await command('POST', '/nodes/acme-1/drain?force=true');
  const drained = await askedDuring(fleet, () => chat({ port, key: keys.acme, model: 'echo-small' }));
  await command('POST', '/nodes/acme-1/undrain');
  const back = await askedDuring(fleet, () => chat({ port, key: keys.acme, model: 'echo-small' }));
  expect([drained, back]).toEqual([{ 'pool-1': 1 }, { 'acme-1': 1 }]);
});

test('Routing algorithm 1: no node or stack node of another organisation ever answers', async () => {
  const asked = await askedDuring(fleet, async () => {
    await chat({ port, key: keys.birch, model: 'echo-small' });
    expectRefusal(await chat({ port, key: keys.birch, model: 'echo-private' }), 'DedicatedOnlyModelError');
  });
  expect(asked).toEqual({ 'pool-1': 1 });
});

test.each([
  { organisation: 'acme', model: 'echo-large' },
  { organisation: 'birch', model: 'echo-large' },
  { organisation: 'cedar', model: 'echo-small' },
  { organisation: 'cedar', model: slashModel },
] as const)(
  'Routing algorithm 2: the pool answers $organisation for $model, which its tier includes',
  async ({ organisation, model }) => {
    const asked = await askedDuring(fleet, async () => {
      const answer = await chat({ port, key: keys[organisation], model });
      expect(answer.status).toBe(200);
      expect(JSON.parse(answer.content).model).toBe(model);
    });
    expect(asked).toEqual({ 'pool-1': 1 });
  },
);

test.each([
  { organisation: 'cedar', model: 'echo-large', type: 'ModelNotInPlanError' },
  { organisation: 'birch', model: 'echo-locked', type: 'ModelNotInPlanError' },
  { organisation: 'dormant', model: 'echo-small', type: 'ModelNotInPlanError' },
  { organisation: 'acme', model: 'echo-bare', type: 'DedicatedOnlyModelError' },
  { organisation: 'acme', model: 'no-such-model', type: 'DedicatedOnlyModelError' },
  { organisation: 'birch', model: 'echo-idle', type: 'InferenceUnavailableError' },
  { organisation: 'acme', model: 'ECHO-SMALL', type: 'DedicatedOnlyModelError' },
  { organisation: 'acme', model: 'echo-small ', type: 'DedicatedOnlyModelError' },
] as const)(
  'Routing algorithm 2, Routing algorithm 3, Errors 4: $organisation asking for "$model" gets $type at once, from no node',
  async ({ organisation, model, type }) => {
    const asked = await askedDuring(fleet, async () => {
      expectRefusal(await within(2000, chat({ port, key: keys[organisation], model })), type);
    });
    expect(asked).toEqual({});
  },
);

test('Routing rule 1: the pool never relieves a busy own node, nor an own node the pool', async () => {
  fleet.nodes['acme-1'].setBehaviour(
    parseBehaviour({ rules: [{ fault: { kind: 'latency', firstTokenMs: 100 } }] }),
  );
  const asked = await askedDuring(fleet, () =>
    Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        chat({ port, key: keys.acme, model: i % 2 === 0 ? 'echo-small' : 'echo-large' }),
      ),
    ),
  );
  expect(asked).toEqual({ 'acme-1': 10, 'pool-1': 10 });
});

test('Routing rule 1: the pool does not replace a failing own node', async () => {
  fleet.nodes['acme-1'].setBehaviour(parseBehaviour({ rules: [{ fault: { kind: 'status', status: 500 } }] }));
  const asked = await askedDuring(fleet, async () => {
    const answer = await chat({ port, key: keys.acme, model: 'echo-small' });
    expectRefusal(answer, 'InferenceUnavailableError');
  });
  expect(asked).toEqual({ 'acme-1': 1 });
});

test.each([
  ...['X-Headgate-Stack', 'X-Stack', 'X-Route', 'X-Prefer', 'Prefer', 'X-Pool', 'X-Node', 'X-Organisation'],
  ...['OpenAI-Organization', 'X-HTTP-Method-Override'],
])('Routing rule 1, Routing rule 2: the header %s does not redirect a request', async (name) => {
  const asked = await askedDuring(fleet, async () => {
    for (const value of ['pool', 'acme-s1', stackHost('otter'), 'birch', 'GET'])
      await chat({ port, key: keys.acme, model: 'echo-small', headers: { [name]: value } });
  });
  expect(asked).toEqual({ 'acme-1': 5 });
});

test.each(['/v1/chat/completions?stack=stk-amber-otter-9k2f', '/v1/chat/completions?host=pool&node=pool-1'])(
  'Routing rule 2: the query of %s does not redirect a request',
  async (path) => {
    const asked = await askedDuring(fleet, () => chat({ port, key: keys.acme, model: 'echo-small', path }));
    expect(asked).toEqual({ 'acme-1': 1 });
  },
);

test.each([
  { why: 'has not installed the model', model: 'echo-small', spoil: undefined, asks: {} },
  { why: 'does not know the model', model: 'no-such-model', spoil: undefined, asks: {} },
  {
    why: 'answers with an error',
    model: 'echo-large',
    spoil: { kind: 'status', status: 503 },
    asks: { 'acme-s1': 1 },
  },
  // The node may have closed a reused connection before the request arrived, so the gateway retries once on a new connection.
  { why: 'closes the connection', model: 'echo-large', spoil: { kind: 'refuse' }, asks: { 'acme-s1': 2 } },
  { why: 'answers with garbage', model: 'echo-large', spoil: { kind: 'garbage' }, asks: { 'acme-s1': 1 } },
])(
  'Routing rule 3: a pinned request whose stack $why is refused and never sent to the pool',
  async ({ model, spoil, asks }) => {
    const host = stackHost('otter');
    for (const stream of [false, true]) {
      // Leaves an open connection to the node, which the next request reuses.
      fleet.nodes['acme-s1'].setBehaviour(healthy);
      expect((await chat({ port, key: keys.acme, model: 'echo-large', host })).status).toBe(200);
      if (spoil) fleet.nodes['acme-s1'].setBehaviour(parseBehaviour({ rules: [{ fault: spoil }] }));
      const asked = await askedDuring(fleet, async () => {
        const answer = await chat({ port, key: keys.acme, model, host, more: { stream } });
        expectRefusal(answer, 'TargetNotServingError');
      });
      expect(asked).toEqual(asks);
    }
  },
);

test('Routing rule 3: a stack with drained nodes refuses, even if pool and own node serve the model', async () => {
  const host = stackHost('otter');
  await command('POST', '/nodes/acme-s1/drain?force=true');
  const asked = await askedDuring(fleet, async () => {
    expectRefusal(await chat({ port, key: keys.acme, model: 'echo-large', host }), 'TargetNotServingError');
    expectRefusal(
      await call({
        port,
        key: keys.acme,
        host,
        method: 'POST',
        path: '/v1/embeddings',
        body: { model: 'echo-embed', input: 'one' },
      }),
      'TargetNotServingError',
    );
  });
  await command('POST', '/nodes/acme-s1/undrain');
  expect(asked).toEqual({});
});

test('Routing rule 4: another organisation’s stack never answers the key', async () => {
  const asked = await askedDuring(fleet, async () => {
    const answer = await chat({ port, key: keys.acme, model: 'echo-small', host: stackHost('heron') });
    expectRefusal(answer, 'TargetNotServingError');
  });
  expect(asked).toEqual({});
});

test.each(['127.0.0.1', stackHost('otter'), stackHost('heron'), stackHost('missing')])(
  'Routing rule 5: nothing reaches a node on %s without a key',
  async (host) => {
    const asked = await askedDuring(fleet, async () => {
      for (const model of ['echo-small', 'echo-large', 'echo-private'])
        expectRefusal(await chat({ port, model, host }), 'Unauthorized');
    });
    expect(asked).toEqual({});
  },
);

/** Returns what could hint at the origin of an answer: the names of its headers and fields, without their values. */
function outline(answer: Answer): unknown {
  const names = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(names);
    if (typeof value !== 'object' || value === null) return typeof value;
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, names(inner)]));
  };
  const documents =
    answer.fields['content-type'] === 'application/json' ? [answer.content] : framesOf(answer);
  return {
    status: answer.status,
    headers: answer.headers.map((line) => line.slice(0, line.indexOf(':'))),
    documents: documents.map((text) => (text === '[DONE]' ? text : names(JSON.parse(text)))),
  };
}

test.each([
  { stream: false, usage: false },
  { stream: true, usage: false },
  { stream: true, usage: true },
])(
  'Routing rule 6, Routing rule 7: own node, pool and stack answer alike (stream $stream, usage $usage)',
  async ({ stream, usage }) => {
    const more = stream ? { stream, ...(usage && { stream_options: { include_usage: true } }) } : {};
    const answers: Answer[] = [];
    const asked = await askedDuring(fleet, async () => {
      for (const where of [
        { key: keys.acme, model: 'echo-small', host: '127.0.0.1' },
        { key: keys.birch, model: 'echo-small', host: '127.0.0.1' },
        { key: keys.birch, model: 'echo-small', host: stackHost('heron') },
      ])
        answers.push(await chat({ port, ...where, more }));
    });
    expect(asked).toEqual({ 'acme-1': 1, 'pool-1': 1, 'birch-s1': 1 });
    const [own, pool, stack] = answers as [Answer, Answer, Answer];
    expect(own.status).toBe(200);
    expect(outline(pool)).toEqual(outline(own));
    expect(outline(stack)).toEqual(outline(own));
    const values = (answer: Answer): string =>
      answer.text
        .replace(/^date: .*$/im, '')
        .replace(/req_[0-9a-f]{32}|chatcmpl-[0-9a-f]{32}|"created":\d+/g, '');
    expect(values(pool)).toBe(values(own));
    expect(values(stack)).toBe(values(own));
  },
);

test('Routing rule 6: an organisation’s traffic is divided request by request', async () => {
  const asked = await askedDuring(fleet, async () => {
    for (const model of ['echo-small', 'echo-large', 'echo-private', 'echo-large', 'echo-small'])
      expect((await chat({ port, key: keys.acme, model })).status).toBe(200);
  });
  expect(asked).toEqual({ 'acme-1': 3, 'pool-1': 2 });
});

test('Routing rule 7: none of a node’s own headers or fields reaches the client', async () => {
  const secret = 'node-secret-header';
  fleet.nodes['pool-1'].setBehaviour(
    parseBehaviour({
      rules: [
        {
          fault: {
            kind: 'status',
            status: 200,
            headers: { server: secret, 'x-node': secret, 'x-request-id': secret },
            body: {
              id: 'node-id',
              object: 'chat.completion',
              created: 1,
              model: 'served-name',
              system_fingerprint: secret,
              node: secret,
              choices: [
                {
                  index: 0,
                  finish_reason: 'stop',
                  message: { role: 'assistant', content: 'fine', node: secret },
                },
              ],
              usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2, node: secret },
            },
          },
        },
      ],
    }),
  );
  const answer = await chat({ port, key: keys.birch, model: 'echo-small' });
  expect(answer.status).toBe(200);
  expect(answer.content).toContain('fine');
  for (const leak of [secret, 'node-id', 'served-name', fleet.nodes['pool-1'].url])
    expect(answer.text).not.toContain(leak);
});
