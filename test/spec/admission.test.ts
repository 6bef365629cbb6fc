/**
 * Tests the chapters "Errors" and "Limits" of the specification: refusals must be true and must not reveal anything about
 * other organisations. Also covers the requests that nodes may receive before the limits have admitted a request.
 */
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { parseBehaviour } from '../simulator/behaviour.ts';
import type { FaultyNode } from '../simulator/faulty-node.ts';
import { type Answer, call, chat, expectRefusal, refusalOf } from '../support/api.ts';
import { roomInMinute, takeClock } from '../support/clock.ts';
import { startFleet, type TestFleet } from '../support/fleet.ts';
import { type Held, hold } from '../support/held.ts';
import { specFleet, stackHost } from '../support/spec-fleet.ts';
import { askedDuring } from '../support/witness.ts';

const clock = takeClock();
let fleet: TestFleet;
let port: number;
const healthy = parseBehaviour({});
/** Name of a heavy model that only birch's stack serves. */
const secret = 'birch-secret-70b';

beforeAll(async () => {
  fleet = await startFleet({
    gateway: { whenStale: 'serve' },
    nodeIntervals: { probeMs: 200, dampSecondsMin: 0.2 },
    fleet: (urls) => {
      const base = specFleet(urls);
      const plan = { models: ['echo-small', 'echo-large', 'echo-embed', secret] };
      return {
        ...base,
        models: [...(base.models ?? []), { id: secret, family: 'secret', weight: 8 }],
        tiers: [
          { id: 'Starter', ...plan },
          { id: 'Slim', concurrency: 4, ...plan },
          { id: 'Narrow', contextTokens: 100, requestsPerMinute: 3, concurrency: 4, ...plan },
          { id: 'Pro', concurrency: 4, ...plan },
          { id: 'Platinum', models: '*' },
        ],
        organisations: (base.organisations ?? []).map((organisation) =>
          organisation.id !== 'birch'
            ? organisation
            : {
                ...organisation,
                stacks: (organisation.stacks ?? []).map((stack) => ({
                  ...stack,
                  models: [...(stack.models ?? []), secret],
                  nodes: (stack.nodes ?? []).map((node) => ({ ...node, models: { [secret]: 'echo-small' } })),
                })),
              },
        ),
      };
    },
  });
  port = fleet.port();
});
afterAll(async () => {
  await fleet.close();
  clock.restore();
});
afterEach(() => {
  for (const node of Object.values(fleet.nodes)) node.setBehaviour(healthy);
});

let organisations = 0;
async function keyOn(tier: string): Promise<string> {
  const id = `caller-${++organisations}`;
  await fleet.admin.call('POST', '/organisations', { id, name: id, tier });
  return keyOf(id);
}
async function keyOf(id: string): Promise<string> {
  const { value } = await fleet.key(id);
  await fleet.settle();
  roomInMinute(clock, id);
  return value;
}

const ask = (key: string, model: string, host = '127.0.0.1', more = {}): Promise<Answer> =>
  chat({ port, key, model, host, more });

async function heldAt(key: string, node: FaultyNode = fleet.nodes['pool-1']): Promise<Held> {
  node.setBehaviour(parseBehaviour({ rules: [{ fault: { kind: 'stall' } }] }));
  const held = await hold({ port, key, model: 'echo-small', at: node });
  node.setBehaviour(healthy);
  return held;
}

/** Every host at which a caller may ask for another organisation's model. */
const elsewhere = ['127.0.0.1', stackHost('heron'), stackHost('missing')];

test.each([0, 1, 3, 4])(
  'Errors 5, Errors 6, Errors 10: with %s requests in flight, others’ private models look like missing ones',
  async (inFlight) => {
    const key = await keyOn('Slim');
    const held: Held[] = [];
    for (let i = 0; i < inFlight; i++) held.push(await heldAt(key));
    for (const host of elsewhere) {
      const [its, none] = [await ask(key, secret, host), await ask(key, 'never-was', host)].map(refusalOf);
      expect(its).toEqual(none);
      expect(its?.message).not.toMatch(/secret|counts as/);
      expect(its?.type === 'InferenceConcurrencyLimitedError').toBe(inFlight === 4);
    }
    for (const one of held) one.leave();
  },
);

test('Errors 10, Limits 2: a heavy private model has its full weight on the stack that serves it', async () => {
  const key = await keyOf('birch');
  const held = await heldAt(key);
  const answer = await ask(key, secret, stackHost('heron'));
  held.leave();
  expect(expectRefusal(answer, 'InferenceConcurrencyLimitedError').message).toContain(
    `${secret} counts as 8, so it takes all of them`,
  );
});

test('Errors 3, Routing algorithm 1: a drained own node’s model is 503, and others cannot tell', async () => {
  const [acme, other] = [await keyOf('acme'), await keyOn('Platinum')];
  expect((await ask(acme, 'echo-private')).status).toBe(200);
  await fleet.admin.call('POST', '/nodes/acme-1/drain?force=true');
  await fleet.settle();
  const answers = [await ask(acme, 'echo-private'), await ask(acme, 'no-such-model')];
  const foreign = await ask(other, 'echo-private');
  await fleet.admin.call('POST', '/nodes/acme-1/undrain');
  await fleet.settle();
  expectRefusal(answers[0] as Answer, 'InferenceUnavailableError');
  expectRefusal(answers[1] as Answer, 'DedicatedOnlyModelError');
  expectRefusal(foreign, 'DedicatedOnlyModelError');
  expect((await ask(acme, 'echo-private')).status).toBe(200);
});

test('Errors 3, Routing algorithm 1: a model of an own node that is down is 503, and the pool’s models are served', async () => {
  const acme = await keyOf('acme');
  fleet.nodes['acme-1'].setBehaviour(parseBehaviour({ connections: { mode: 'refused' } }));
  await fleet.seen('acme-1', false);
  const [own, pooled] = [await ask(acme, 'echo-private'), await ask(acme, 'echo-small')];
  fleet.nodes['acme-1'].setBehaviour(healthy);
  await fleet.seen('acme-1', true);
  expectRefusal(own, 'InferenceUnavailableError');
  expect(pooled.status).toBe(200);
}, 60_000);

/** A prompt with more bytes than the tier allows tokens. Only the node's token count can tell whether it fits. */
const undecided = { messages: [{ role: 'user', content: 'b'.repeat(300) }] };
/** A prompt of a single word that nevertheless has too many tokens by the count of the node. */
const tooLong = { messages: [{ role: 'user', content: 'b'.repeat(600) }] };

test('Errors 8, Errors 9, Limits 3: at the limit per minute no node is asked, not even for a count', async () => {
  const key = await keyOn('Narrow');
  for (let i = 0; i < 3; i++) expect((await ask(key, 'echo-small')).status).toBe(200);
  const asked = await askedDuring(fleet, async () => {
    for (const more of [undecided, tooLong])
      expectRefusal(await ask(key, 'echo-small', '127.0.0.1', more), 'InferenceRateLimitedError');
  });
  expect(asked).toEqual({});
});

test('Errors 8, Errors 10, Limits 3: at the concurrency limit no node is asked, not even for a count', async () => {
  const key = await keyOn('Pro');
  const held = [];
  for (let i = 0; i < 4; i++) held.push(await heldAt(key));
  const asked = await askedDuring(fleet, async () => {
    expectRefusal(await ask(key, 'echo-small', '127.0.0.1', tooLong), 'InferenceConcurrencyLimitedError');
  });
  for (const one of held) one.leave();
  expect(asked).toEqual({});
});

test('Errors 8, Limits 3: a request refused by its count costs nothing of the minute, and releases its place', async () => {
  const key = await keyOn('Narrow');
  for (let i = 0; i < 3; i++)
    expectRefusal(await ask(key, 'echo-small', '127.0.0.1', tooLong), 'ContextWindowExceededError');
  for (let i = 0; i < 3; i++) expect((await ask(key, 'echo-small', '127.0.0.1', undecided)).status).toBe(200);
  expectRefusal(await ask(key, 'echo-small'), 'InferenceRateLimitedError');
});

test('Errors 8, Limits 3: a prompt that may not fit the tier is counted, however short the requested answer', async () => {
  const key = await keyOn('Narrow');
  for (const more of [{}, { max_tokens: 1 }, { max_tokens: 50 }]) {
    const asked = await askedDuring(fleet, async () => {
      const answer = await ask(key, 'echo-small', '127.0.0.1', { ...tooLong, ...more });
      expect(expectRefusal(answer, 'ContextWindowExceededError').message).not.toContain('at least');
    });
    // The node received a single request, which asked it to count tokens.
    expect(asked).toEqual({ 'pool-1': 1 });
  }
});

test('Errors 8, Limits 3: an uncountable prompt is refused only by its lower bound, and otherwise takes its place', async () => {
  const [key, other] = [await keyOn('Narrow'), await keyOn('Narrow')];
  const cannotCount = [{ match: { path: '/tokenize' }, fault: { kind: 'status', status: 404 } }];
  fleet.nodes['pool-1'].setBehaviour(parseBehaviour({ rules: cannotCount }));
  for (const more of [undecided, tooLong, { ...tooLong, max_tokens: 50 }]) {
    const asked = await askedDuring(fleet, async () => {
      expect((await ask(key, 'echo-small', '127.0.0.1', more)).status).toBe(200);
    });
    // The node received two requests: one that asked it to count tokens, and the completion itself.
    expect(asked).toEqual({ 'pool-1': 2 });
  }
  expectRefusal(await ask(key, 'echo-small', '127.0.0.1', undecided), 'InferenceRateLimitedError');
  const words = { messages: [{ role: 'user', content: 'one two three '.repeat(40) }] };
  expectRefusal(await ask(other, 'echo-small', '127.0.0.1', words), 'ContextWindowExceededError');
});

test('Errors 8, Limits 3: more words than any vocabulary could fit are refused without asking a node', async () => {
  const key = await keyOn('Narrow');
  const words = { messages: [{ role: 'user', content: 'one two three '.repeat(1000) }] };
  const asked = await askedDuring(fleet, async () => {
    const { message } = expectRefusal(
      await ask(key, 'echo-small', '127.0.0.1', words),
      'ContextWindowExceededError',
    );
    expect(message).toMatch(/at least 30\d\d tokens.*Narrow.*100/);
  });
  expect(asked).toEqual({});
});

test('Limits 3: each embeddings input is judged by itself', async () => {
  const key = await keyOn('Narrow');
  const embed = (input: unknown) =>
    call({ port, key, method: 'POST', path: '/v1/embeddings', body: { model: 'echo-embed', input } });
  const fits = 'word '.repeat(90);
  expect((await embed(Array.from({ length: 20 }, () => fits))).status).toBe(200);
  expect((await embed(Array.from({ length: 20 }, () => Array.from({ length: 90 }, () => 7)))).status).toBe(
    200,
  );
  expectRefusal(await embed([fits, 'word '.repeat(101)]), 'ContextWindowExceededError');
  expect((await embed(fits)).status).toBe(200);
});
