/**
 * Tests that every client library of the OpenAI-style API must pass: ordinary calls through the three hosts, each refusal as
 * the library's own error after the right number of requests, and an error for a stream that ends early.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { refusalKinds } from '../../schemas/api/refusals.ts';
import { windowMs, windowStartMs } from '../../shared/decision/decide.ts';
import { parseBehaviour } from '../simulator/behaviour.ts';
import { type TestClock, takeClock } from '../support/clock.ts';
import { stackHost } from '../support/spec-fleet.ts';
import { askedDuring } from '../support/witness.ts';
import { type Client, dot, type Failure, toolResult } from './client.ts';
import { type ClientFleet, startClientFleet } from './client-fleet.ts';
import { callsOnce, oddStreams, oddText, streamsOnce } from './repaired-forms.ts';
import { failing, paths, pauses } from './wire.ts';

/** How a library differs from the official ones. */
export interface Manners {
  readonly errors: Readonly<
    Record<keyof ClientFleet['traps'] | 'UnsupportedShapeError' | 'early end', string>
  >;
  /** Number of requests that a call sends if the refusal persists. Defaults to 3 for status 503 and to 1 for others. */
  readonly requests?: Partial<Record<keyof ClientFleet['traps'], number>>;
  /** Shortest time that the library waits before it repeats a request after a 503, in ms. */
  readonly backoffMs: number;
  /** The library retries a lasting 503 for so long that the test does not wait until it gives up. */
  readonly patient?: true;
  /** The library does not send fields that it does not know. */
  readonly fixedFields?: true;
  /** The library can send the caller's Host header. Node's own fetch silently drops it. */
  readonly setsHost?: true;
  /** Path of the library's requests if it does not use chat completions. */
  readonly path?: '/v1/responses';
  readonly ignoresRetryAfter?: true;
}

/** Error classes of the official library and of libraries that pass its errors through. */
export const openaiErrors: Manners['errors'] = {
  Unauthorized: 'AuthenticationError',
  UnsupportedShapeError: 'BadRequestError',
  InferenceUnavailableError: 'InternalServerError',
  ModelNotInPlanError: 'PermissionDeniedError',
  DedicatedOnlyModelError: 'NotFoundError',
  TargetNotServingError: 'NotFoundError',
  InferenceUpsellError: 'ConflictError',
  ContextWindowExceededError: 'APIError',
  'early end': 'TypeError',
};

/** How the official library behaves on POST /v1/responses. Its stream reader throws an error class of its own. */
export const responsesManners: Manners = {
  errors: { ...openaiErrors, 'early end': 'OpenAIError' },
  backoffMs: 350,
  path: '/v1/responses',
};

let clock: TestClock;
let at: ClientFleet;

export function useClientFleet(): void {
  beforeAll(async () => {
    clock = takeClock();
    at = await startClientFleet();
  });
  afterAll(async () => {
    await at.close();
    clock.restore();
  });
  beforeEach(() => at.reset());
}

const trapTypes = Object.keys(openaiErrors).filter(
  (type) => type !== 'early end' && type !== 'UnsupportedShapeError',
) as (keyof ClientFleet['traps'])[];

/** Registers the tests for one library. `open` creates its client and is called once. */
export function proveClient(name: string, manners: Manners, open: () => Promise<Client>): void {
  describe(name, () => {
    let client: Client;
    beforeAll(async () => {
      client = await open();
    });
    roads(() => client, manners);
    refusals(() => client, manners);
    repeats(() => client, manners);
  });
}

function roads(client: () => Client, manners: Manners): void {
  const places = [
    {
      place: 'the pool, by the shared host',
      node: 'pool-1',
      as: 'pooled',
      model: 'echo-large',
      wire: 'shared',
    },
    {
      place: 'an own node, by the shared host',
      node: 'acme-1',
      as: 'acme',
      model: 'echo-small',
      wire: 'shared',
    },
    { place: 'a stack, by its own port', node: 'acme-s1', as: 'acme', model: 'echo-large', wire: 'stack' },
  ] as const;

  test.each(places)('Endpoints: a chat, a stream and a tool call are answered by $place', async (road) => {
    const target = { url: at[road.wire].url, key: at[road.as], model: road.model };
    const asked = await askedDuring(at.fleet, async () => {
      expect(await client().chat({ ...target, text: 'good morning' })).toMatch(/^echo: good morning/);
      expect(await client().stream({ ...target, text: 'say 20 words' })).toMatch(/^(\S+ ){19}\S+$/);
      const turn = await client().tools({ ...target, text: 'call weather in Paris' });
      expect(turn).toEqual({ input: { city: 'text' }, text: expect.stringContaining(toolResult) });
    });
    expect(asked).toEqual({ [road.node]: 4 });
    expect(paths(at[road.wire])).toEqual(Array(4).fill(`POST ${manners.path ?? '/v1/chat/completions'}`));
  });

  test.each(Object.entries(oddStreams))('Stream behaviour: a stream %s is read', async (_, stream) => {
    at.fleet.nodes['pool-1'].setBehaviour(streamsOnce(stream));
    const ask = { url: at.shared.url, key: at.pooled, model: 'echo-small', text: 'hello' };
    expect(await client().stream(ask)).toBe(oddText);
  });

  test('Endpoints: a tool call that its engine ends with stop, and gives no id, is run', async () => {
    at.fleet.nodes['pool-1'].setBehaviour(callsOnce());
    const ask = { url: at.shared.url, key: at.pooled, model: 'echo-small', text: 'hello' };
    const turn = await client().tools(ask);
    expect(turn).toEqual({ input: { city: 'text' }, text: expect.stringContaining(toolResult) });
  });

  if (manners.path === '/v1/responses')
    test('Endpoints: a picture reaches the node as it was sent, whole and streamed', async () => {
      const image = `data:image/png;base64,${dot}`;
      const ask = {
        url: at.shared.url,
        key: at.pooled,
        model: 'echo-large',
        text: 'good morning',
        image,
      };
      expect(await client().chat(ask)).toMatch(/^echo: good morning/);
      expect(await client().stream(ask)).toMatch(/^echo: good morning/);
      for (const body of at.fleet.nodes['pool-1'].stats().bodies.slice(-2)) {
        const { messages } = body as { messages: { role: string; content: unknown }[] };
        expect(messages.at(-1)).toMatchObject({
          role: 'user',
          content: [{ type: 'text' }, { type: 'image_url', image_url: { url: image } }],
        });
      }
    });

  if (manners.setsHost)
    test('What the service does 4: a stack is reached by its name in the Host header', async () => {
      const target = { url: at.shared.url, key: at.acme, headers: { Host: stackHost('otter') } };
      const asked = await askedDuring(at.fleet, () =>
        client().chat({ ...target, model: 'echo-large', text: 'good morning' }),
      );
      expect(asked).toEqual({ 'acme-s1': 1 });
    });

  test('Endpoints: embeddings come in order, one a text, by shared host and stack', async ({ skip }) => {
    const embed = client().embed;
    if (!embed) return skip('the library has no embeddings');
    for (const wire of [at.shared, at.stack]) {
      const target = { url: wire.url, key: at.acme, model: 'echo-embed' };
      const [one, two] = await embed(target, ['first', 'second']);
      const [second, first] = await embed(target, ['second', 'first']);
      expect([one, two]).toEqual([first, second]);
      expect(one).not.toEqual(two);
      expect(one?.every((value) => Math.abs(value) <= 1)).toBe(true);
      expect(one?.length).toBeGreaterThan(1);
    }
  });

  test('Endpoints: the listing of the shared host and that of a stack are read', async ({ skip }) => {
    const models = client().models;
    if (!models) return skip('the library lists no models');
    const shared = await models({ url: at.shared.url, key: at.acme });
    expect([...shared].sort()).toEqual(['echo-embed', 'echo-large', 'echo-small', 'team/echo:v1.0']);
    const stack = await models({ url: at.stack.url, key: at.acme });
    expect([...stack].sort()).toEqual(['echo-embed', 'echo-large']);
  });
}

function refusals(client: () => Client, { errors, requests = {}, patient, fixedFields }: Manners): void {
  const expected = (type: keyof Omit<typeof errors, 'early end'>): Failure => ({
    name: errors[type],
    status: refusalKinds[type].status,
    type,
  });

  test.for(trapTypes)(
    'Errors: %s is the library’s own error after the right number of requests',
    async (type, { skip }) => {
      if (patient && type === 'InferenceUnavailableError') skip('a minute of repeats');
      const trap = at.traps[type];
      const text = Array(trap.words).fill('word').join(' ');
      expect(await failing(client(), client().chat({ ...trap, text }))).toEqual(expected(type));
      const count = requests[type] ?? (type === 'InferenceUnavailableError' ? 3 : 1);
      expect([...at.shared.sightings, ...at.stack.sightings]).toHaveLength(count);
    },
  );

  test('Errors: a refusal of a stream is the same error as that of a chat', async () => {
    const trap = at.traps.ModelNotInPlanError;
    const failure = await failing(client(), client().stream({ ...trap, text: 'hello' }));
    expect(failure).toEqual(expected('ModelNotInPlanError'));
    expect(at.shared.sightings).toHaveLength(1);
  });

  test('Errors: UnsupportedShapeError for what the shape cannot hold, after one request', async () => {
    const wire = fixedFields ? at.switched : at.shared;
    const target = { url: wire.url, key: at.acme, model: 'echo-small', text: 'hello' };
    const extra = fixedFields ? {} : { extra: { no_such_field: 1 } };
    const failure = await failing(client(), client().chat({ ...target, ...extra }));
    expect(failure).toEqual(expected('UnsupportedShapeError'));
    expect(wire.sightings).toHaveLength(1);
  });
}

function repeats(client: () => Client, { errors, backoffMs, ignoresRetryAfter }: Manners): void {
  test('Errors 3: a 503 that passes is got over by a repeat after a pause', async () => {
    const node = at.fleet.nodes['pool-1'];
    node.setBehaviour(
      parseBehaviour({ rules: [{ match: { times: 1 }, fault: { kind: 'status', status: 503 } }] }),
    );
    const text = await client().chat({
      url: at.shared.url,
      key: at.pooled,
      model: 'echo-small',
      text: 'still there',
    });
    expect(text).toMatch(/^echo: still there/);
    const [pause, ...more] = pauses(at.shared);
    expect(pause).toBeGreaterThanOrEqual(backoffMs);
    expect(more).toEqual([]);
  });

  test('Errors 10: at the limit of concurrency the next try comes after Retry-After and is answered', async () => {
    const { key, held } = await at.occupied();
    at.shared.onAnswer(429, () => held.leave());
    const text = await client().chat({ url: at.shared.url, key, model: 'echo-small', text: 'my turn' });
    expect(text).toMatch(/^echo: my turn/);
    const [pause, ...more] = pauses(at.shared);
    expect(pause).toBeGreaterThanOrEqual(ignoresRetryAfter ? 1 : 995);
    expect(more).toEqual([]);
  });

  test('Errors 9: at the limit of requests the next try comes when the minute is over', async () => {
    const leftIn = (of: string) => windowStartMs(of, clock.now()) + windowMs - clock.now();
    let { key, organisation } = await at.keyOn('Minutely');
    while (leftIn(organisation) < 5000 || leftIn(organisation) > 25_000)
      ({ key, organisation } = await at.keyOn('Minutely'));
    const ask = { url: at.shared.url, key, model: 'echo-small', text: 'once more' };
    await client().chat(ask);
    at.shared.restart();
    clock.advanceMs(leftIn(organisation) - 1900);
    expect(await client().chat(ask)).toMatch(/^echo: once more/);
    if (ignoresRetryAfter) return;
    const [pause, ...more] = pauses(at.shared);
    expect(pause).toBeGreaterThanOrEqual(1850);
    expect(more).toEqual([]);
  });

  test('Stream behaviour: a stream that ends early raises, and is not asked for again', async () => {
    at.fleet.nodes['pool-1'].setBehaviour(
      parseBehaviour({ rules: [{ fault: { kind: 'cut', afterEvents: 5 } }] }),
    );
    const target = { url: at.shared.url, key: at.pooled, model: 'echo-small', text: 'say 20 words' };
    const failure = await failing(client(), client().stream(target));
    expect(failure.name).toBe(errors['early end']);
    expect(at.shared.sightings).toHaveLength(1);
  });
}
