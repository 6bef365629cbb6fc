/**
 * Tests that every library of the Anthropic-style API must pass on a stack that uses this API. Each row of the translation
 * must reach the node and come back, tools must work over several turns, each refusal must become the library's own error
 * after the right number of requests, and a stream that ends early must cause an error.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { type RefusalType, refusalKinds } from '../../schemas/api/refusals.ts';
import { windowMs, windowStartMs } from '../../shared/decision/decide.ts';
import { parseBehaviour } from '../simulator/behaviour.ts';
import { type TestClock, takeClock } from '../support/clock.ts';
import { inferences, usageOf, usageReaches } from '../support/witness.ts';
import { dot, toolResult } from './client.ts';
import type { Ask, MessagesClient } from './messages-client.ts';
import { type MessagesFleet, type Owner, startMessagesFleet } from './messages-fleet.ts';
import { callsOnce, oddStreams, oddText, streamsOnce } from './repaired-forms.ts';
import { failing, paths, pauses, type Wire } from './wire.ts';

export type TrappedType = Extract<
  RefusalType,
  | 'Unauthorized'
  | 'UnsupportedShapeError'
  | 'ModelNotInPlanError'
  | 'TargetNotServingError'
  | 'InferenceUpsellError'
  | 'ContextWindowExceededError'
  | 'InferenceUnavailableError'
  | 'InternalError'
>;

/** How a library differs from the official ones. */
export interface Manners {
  /** Header in which the library sends the key. It also tells which version of the API the library uses. */
  readonly keyIn: 'x-api-key' | 'authorization';
  readonly version: '2023-06-01' | '2026-10-21';
  readonly errors: Readonly<Record<TrappedType | 'early end', string>>;
  /**
   * Number of requests that a call sends if the refusal persists. Defaults to 3 if the refusal may be retried, and to 1
   * otherwise.
   */
  readonly requests?: Partial<Record<TrappedType, number>>;
  /** The library retries for so long that the test does not wait until it gives up. */
  readonly patient?: true;
  /** Shortest time that the library waits before it repeats a request after a 503, in ms. */
  readonly backoffMs: number;
  readonly ignoresRetryAfter?: true;
  /** Rows of the translation that the library sends differently from what the test asks for. */
  readonly omits?: readonly string[];
}

/** How the official libraries behaved before they moved to the newer version of the API. */
export const official: Manners = {
  keyIn: 'x-api-key',
  version: '2023-06-01',
  errors: {
    Unauthorized: 'AuthenticationError',
    UnsupportedShapeError: 'BadRequestError',
    ModelNotInPlanError: 'PermissionDeniedError',
    TargetNotServingError: 'NotFoundError',
    InferenceUpsellError: 'ConflictError',
    ContextWindowExceededError: 'APIError',
    InternalError: 'InternalServerError',
    InferenceUnavailableError: 'InternalServerError',
    'early end': 'AnthropicError',
  },
  backoffMs: 350,
};

/** Converts a library's differences to those that it has after moving to the newer version of the API. */
export function renewed(older: Manners): Manners {
  const errors = {
    ...older.errors,
    ContextWindowExceededError: 'ContentTooLargeError',
    InferenceUnavailableError: 'ServiceUnavailableError',
  };
  return { ...older, keyIn: 'authorization', version: '2026-10-21', errors };
}

let clock: TestClock;
let at: MessagesFleet;

export function useMessagesFleet(): () => MessagesFleet {
  beforeAll(async () => {
    clock = takeClock();
    at = await startMessagesFleet();
  });
  afterAll(async () => {
    await at.close();
    clock.restore();
  });
  beforeEach(() => at.reset());
  return () => at;
}

/** Returns the URL of a stack in the form that the libraries expect, with the key of its owner and a model. */
export function toStack(owner: Owner = 'acme', wire: Wire = at.wires[owner]) {
  const model = owner === 'acme' ? 'echo-large' : 'echo-small';
  return { url: wire.url.replace(/\/v1$/, ''), key: at.keys[owner], model };
}

/** Registers the tests for one library. `open` creates its client and is called once. */
export function proveMessagesClient(
  name: string,
  manners: Manners,
  open: () => Promise<MessagesClient>,
): void {
  describe(name, () => {
    let client: MessagesClient;
    beforeAll(async () => {
      client = await open();
    });
    translation(() => client, manners);
    conversations(() => client);
    refusals(() => client, manners);
    repeats(() => client, manners);
  });
}

/** Registers the test that a tool runner cannot keep its conversation in a server-side thread. */
export function proveNoThread<Client extends Pick<MessagesClient, 'failure'>>(
  open: () => Promise<Client>,
  converse: (client: Client, ask: Ask) => Promise<unknown>,
): void {
  test('Errors 2: the tool runner that keeps its conversation in a thread is answered with how to do without', async () => {
    const client = await open();
    const ask: Ask = { ...toStack(), text: 'call weather with {"city":"Oslo"}', tools: 'auto' };
    const error = await Promise.resolve(converse(client, ask)).catch((thrown: unknown) => thrown);
    expect(client.failure(error)).toMatchObject({ name: 'BadRequestError', type: 'UnsupportedShapeError' });
    expect((error as Error).message).toContain('set `thread: false` in the tool runner');
    expect(at.wires.acme.sightings).toHaveLength(1);
  });
}

interface Row {
  readonly row: string;
  readonly ask: Partial<Ask>;
  /** Members that the body sent to the node must contain. */
  readonly sent?: object;
  /** Pattern that must not occur in the body sent to the node. */
  readonly notSent?: RegExp;
  readonly said: object;
  /** The row applies only to the older version of the API. */
  readonly older?: true;
}

const schema = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
  additionalProperties: false,
};
const call = { name: 'weather', input: { city: 'text' } };
const offered = [{ type: 'function', function: { name: 'weather', parameters: schema } }];
const greeting = { text: expect.stringMatching(/^echo: good morning/), calls: [], stop: 'end_turn' };

const rows: readonly Row[] = [
  { row: 'a text', ask: {}, sent: { model: 'echo-large', max_tokens: expect.any(Number) }, said: greeting },
  {
    row: 'system',
    ask: { system: 'Be brief.' },
    sent: { messages: [{ role: 'system', content: 'Be brief.' }, { role: 'user' }] },
    said: greeting,
  },
  {
    row: 'an image',
    ask: { image: dot },
    sent: {
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text' },
            { type: 'image_url', image_url: { url: `data:image/png;base64,${dot}` } },
          ],
        },
      ],
    },
    said: greeting,
  },
  {
    row: 'tools, of which one is called',
    ask: { text: 'call weather in Paris', tools: 'auto' },
    sent: { tools: offered },
    said: { text: '', calls: [call], stop: 'tool_use' },
  },
  {
    row: 'tools, of which none is called',
    ask: { tools: 'auto' },
    sent: { tools: offered },
    said: greeting,
  },
  {
    row: 'tool_choice any',
    ask: { tools: 'any' },
    sent: { tools: offered, tool_choice: 'required' },
    said: { calls: [call], stop: 'tool_use' },
  },
  {
    row: 'tool_choice tool',
    ask: { tools: 'named' },
    sent: { tool_choice: { type: 'function', function: { name: 'weather' } } },
    said: { calls: [call], stop: 'tool_use' },
  },
  {
    row: 'disable_parallel_tool_use',
    ask: { text: 'call weather and call weather', tools: 'auto', oneCall: true },
    sent: { parallel_tool_calls: false },
    said: { calls: [call] },
  },
  {
    row: 'two calls in one turn',
    ask: { text: 'call weather and call weather', tools: 'auto' },
    said: { calls: [call, call] },
  },
  {
    row: 'max_tokens',
    ask: { text: 'say 50 words', maxTokens: 5 },
    sent: { max_tokens: 5 },
    said: { stop: 'max_tokens', outputTokens: 5 },
  },
  {
    row: 'stop_sequences',
    ask: { text: 'one two three four', stop: ['never', 'three'] },
    sent: { stop: ['never', 'three'] },
    said: { text: 'echo: one two ', stop: 'stop_sequence', stopSequence: 'three' },
  },
  { row: 'temperature', ask: { temperature: 0.5 }, sent: { temperature: 0.5 }, said: greeting, older: true },
  { row: 'top_p', ask: { topP: 0.5 }, sent: { top_p: 0.5 }, said: greeting, older: true },
  { row: 'top_k', ask: { topK: 5 }, sent: { top_k: 5 }, said: greeting, older: true },
  {
    row: 'thinking disabled',
    ask: { thinking: 'disabled' },
    sent: { reasoning_effort: 'none' },
    said: { ...greeting, thoughts: '' },
  },
  {
    row: 'thinking with a budget',
    ask: { thinking: 1024 },
    sent: { thinking_token_budget: 1024 },
    said: { ...greeting, thoughts: expect.stringMatching(/^thinking about it/) },
  },
  {
    row: 'adaptive thinking with an effort',
    ask: { thinking: 'adaptive', effort: 'high' },
    sent: { reasoning_effort: 'high' },
    said: { ...greeting, thoughts: expect.stringMatching(/^thinking about it/) },
  },
  {
    row: 'a JSON schema',
    ask: { schema },
    sent: { response_format: { type: 'json_schema', json_schema: { name: 'output', strict: true } } },
    said: { text: '{"city":"text"}' },
  },
  {
    row: 'cache_control',
    ask: { cache: true, system: 'Be brief.', tools: 'auto' },
    notSent: /cache|ephemeral/,
    said: greeting,
  },
  { row: 'metadata.user_id', ask: { user: 'SECRET' }, notSent: /SECRET|user_id/, said: greeting },
];

function translation(client: () => MessagesClient, { omits = [], version, keyIn }: Manners): void {
  const can = rows.filter(({ row, older }) => !omits.includes(row) && (!older || version === '2023-06-01'));
  test.each(can)(
    'Endpoints: whole and streamed, $row reaches the node, and its answer the caller',
    async (row) => {
      const ask: Ask = { ...toStack(), text: 'good morning', ...row.ask };
      const node = at.fleet.nodes['acme-s1'];
      for (const way of ['whole', 'stream'] as const) {
        const before = node.stats();
        const said = await client()[way](ask);
        expect(said, way).toMatchObject(row.said);
        const body = at.lastBody();
        expect(body, way).toMatchObject({ stream: way === 'stream', ...row.sent });
        if (row.notSent) expect(JSON.stringify(body)).not.toMatch(row.notSent);
        // The caller receives the token counts of the node.
        await vi.waitUntil(() => node.stats().completed > before.completed, { timeout: 10_000, interval: 2 });
        const after = node.stats();
        expect([said.inputTokens, said.outputTokens], way).toEqual([
          after.promptTokens - before.promptTokens,
          after.completionTokens - before.completionTokens,
        ]);
      }
      expect(paths(at.wires.acme)).toEqual(Array(2).fill('POST /v1/messages'));
    },
  );

  test.runIf(version === '2026-10-21').each(['temperature', 'topP', 'topK'] as const)(
    'Errors 2: %s is refused, because this generation has no such field',
    async (field) => {
      const failure = await failing(client(), client().whole({ ...toStack(), text: 'hello', [field]: 1 }));
      expect(failure).toMatchObject({ status: 400, type: 'UnsupportedShapeError' });
    },
  );

  test('Authentication 2: the key goes in its header, with the version of the API', async () => {
    await client().whole({ ...toStack(), text: 'hello' });
    const head = `\r\n${at.wires.acme.sightings[0]?.head.toLowerCase()}`;
    expect(head).toContain(`\r\nanthropic-version: ${version}`);
    const others = { authorization: 'x-api-key', 'x-api-key': 'authorization' } as const;
    expect(head).toContain(`\r\n${keyIn}: ${keyIn === 'authorization' ? 'bearer ' : ''}`);
    expect(head).not.toContain(`\r\n${others[keyIn]}: `);
  });
}

const city = (name: string) => `call weather with {"city":"${name}"}`;

function conversations(client: () => MessagesClient): void {
  test.each(Object.entries(oddStreams))('Stream behaviour: a stream %s is read', async (_, stream) => {
    at.fleet.nodes['acme-s1'].setBehaviour(streamsOnce(stream));
    expect((await client().stream({ ...toStack(), text: 'hello' })).text).toBe(oddText);
  });

  test('Endpoints: a tool call that its engine ends with stop, and gives no id, is run', async () => {
    at.fleet.nodes['acme-s1'].setBehaviour(callsOnce());
    const turns = await client().converse({ ...toStack(), text: 'hello', tools: 'auto' });
    expect(turns).toEqual({ inputs: [{ city: 'text' }], text: expect.stringContaining(toolResult) });
  });

  test.each([
    { what: 'without thoughts', thinking: undefined },
    { what: 'with thoughts between', thinking: 1024 },
  ])('Endpoints: a tool is called in two turns, and each result is read, $what', async ({ thinking }) => {
    const text = `${city('Oslo')}\n${city('Rome')}`;
    const turns = await client().converse({
      ...toStack(),
      text,
      tools: 'auto',
      ...(thinking !== undefined && { thinking }),
    });
    expect(turns.inputs).toEqual([{ city: 'Oslo' }, { city: 'Rome' }]);
    expect(turns.text).toContain(toolResult);
    const called = (name: string) => ({
      role: 'assistant',
      ...(thinking !== undefined && { reasoning: expect.stringMatching(/^thinking about it/) }),
      tool_calls: [{ function: { name: 'weather', arguments: JSON.stringify({ city: name }) } }],
    });
    const answered = { role: 'tool', content: expect.stringContaining(toolResult) };
    const messages = [{ role: 'user', content: text }, called('Oslo'), answered, called('Rome'), answered];
    expect(at.lastBody()).toMatchObject({ messages });
    expect(paths(at.wires.acme)).toEqual(Array(3).fill('POST /v1/messages'));
  });

  test('Endpoints: tokens are counted without an answer, and as the answer then counts them', async ({
    skip,
  }) => {
    const count = client().countTokens;
    if (!count) return skip('the library counts no tokens');
    const ask: Ask = { ...toStack(), text: 'good morning', system: 'Be brief.', tools: 'auto' };
    const before = inferences(at.fleet.nodes['acme-s1']);
    const counted = await count(ask);
    expect(inferences(at.fleet.nodes['acme-s1'])).toBe(before);
    expect(counted).toBe((await client().whole(ask)).inputTokens);
    expect(paths(at.wires.acme)[0]).toBe('POST /v1/messages/count_tokens');
  });

  test('Endpoints: the listing is that of the stack', async ({ skip }) => {
    const models = client().models;
    if (!models) return skip('the library lists no models');
    expect(await models(toStack())).toEqual(['echo-large']);
  });
}

/** A request for each type of refusal. A server in front of a stack sends the last three, with the gateway's own bytes. */
const traps: Readonly<Record<TrappedType, () => Ask>> = {
  Unauthorized: () => ({ ...toStack(), key: `${at.keys.acme.slice(0, -1)}~`, text: 'hello' }),
  UnsupportedShapeError: () => ({ ...toStack(), text: 'hello', stop: [''] }),
  ModelNotInPlanError: () => ({ ...toStack('planless'), text: 'hello' }),
  TargetNotServingError: () => ({ ...toStack(), model: 'echo-small', text: 'hello' }),
  ContextWindowExceededError: () => ({ ...toStack('narrow'), text: 'word '.repeat(3000) }),
  InferenceUpsellError: () => refusedAlways('InferenceUpsellError'),
  InternalError: () => refusedAlways('InternalError'),
  InferenceUnavailableError: () => refusedAlways('InferenceUnavailableError'),
};

function refusedAlways(type: TrappedType): Ask {
  at.refuseNext(type, 1000);
  return { ...toStack('acme', at.refusing), text: 'hello' };
}

function refusals(client: () => MessagesClient, { errors, requests = {}, patient }: Manners): void {
  const expected = (type: TrappedType) => ({ name: errors[type], status: refusalKinds[type].status, type });
  const sighted = () => [...Object.values(at.wires), at.refusing].flatMap(({ sightings }) => sightings);

  test.for(Object.keys(traps) as TrappedType[])(
    'Errors: %s is the library’s own error after the right number of requests',
    async (type, { skip }) => {
      const mayRepeat = refusalKinds[type].retry !== 'never';
      if (patient && mayRepeat) skip('a minute of repeats');
      expect(await failing(client(), client().whole(traps[type]()))).toEqual(expected(type));
      expect(sighted()).toHaveLength(requests[type] ?? (mayRepeat ? 3 : 1));
    },
  );

  test('Errors: a refusal of a stream is the same error as that of a message', async () => {
    const ask = traps.ModelNotInPlanError();
    expect(await failing(client(), client().stream(ask))).toEqual(expected('ModelNotInPlanError'));
    expect(sighted()).toHaveLength(1);
  });
}

function repeats(client: () => MessagesClient, { errors, backoffMs, ignoresRetryAfter }: Manners): void {
  test('Errors 3: a 503 that passes is got over by a repeat after a pause', async () => {
    at.refuseNext('InferenceUnavailableError', 1);
    const said = await client().whole({ ...toStack('acme', at.refusing), text: 'still there' });
    expect(said.text).toMatch(/^echo: still there/);
    const [pause, ...more] = pauses(at.refusing);
    expect(pause).toBeGreaterThanOrEqual(backoffMs);
    expect(more).toEqual([]);
  });

  test('Errors 10: at the limit of concurrency the next try comes after Retry-After and is answered', async () => {
    const node = at.fleet.nodes['birch-s1'];
    node.setBehaviour(parseBehaviour({ rules: [{ match: { times: 1 }, fault: { kind: 'stall' } }] }));
    const before = inferences(node);
    const leave = new AbortController();
    const { url, key, model } = toStack('slim');
    const held = fetch(`${url}/v1/messages`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, max_tokens: 5, messages: [{ role: 'user', content: 'wait' }] }),
      signal: leave.signal,
    }).catch(() => undefined);
    await vi.waitUntil(() => inferences(node) > before, { timeout: 10_000, interval: 2 });
    const wire = at.wires.slim;
    wire.restart();
    wire.onAnswer(429, () => leave.abort());
    expect((await client().whole({ ...toStack('slim'), text: 'my turn' })).text).toMatch(/^echo: my turn/);
    await held;
    const [pause, ...more] = pauses(wire);
    expect(pause).toBeGreaterThanOrEqual(ignoresRetryAfter ? 1 : 995);
    expect(more).toEqual([]);
  });

  test('Errors 9: at the limit of requests the next try comes when the minute is over', async () => {
    const ask = { ...toStack('minutely'), text: 'once more' };
    const leftMs = (): number => windowStartMs('minutely', clock.now()) + windowMs - clock.now();
    // Moves to a minute in which the organisation has not sent any request yet.
    clock.advanceMs(leftMs());
    await client().whole(ask);
    at.wires.minutely.restart();
    clock.advanceMs(leftMs() - 1900);
    expect((await client().whole(ask)).text).toMatch(/^echo: once more/);
    if (ignoresRetryAfter) return;
    const [pause, ...more] = pauses(at.wires.minutely);
    expect(pause).toBeGreaterThanOrEqual(1850);
    expect(more).toEqual([]);
  });

  test('Stream behaviour: a stream that ends early raises, is not asked for again, and is not billed', async () => {
    const { requests } = await usageOf(at.fleet, 'lone');
    at.fleet.nodes['birch-s1'].setBehaviour(
      parseBehaviour({ rules: [{ match: { times: 1 }, fault: { kind: 'cut', afterEvents: 5 } }] }),
    );
    const failure = await failing(client(), client().stream({ ...toStack('lone'), text: 'say 20 words' }));
    expect(failure.name).toBe(errors['early end']);
    expect(at.wires.lone.sightings).toHaveLength(1);
    // Only this request is recorded, and not the one whose stream ended early.
    await client().whole({ ...toStack('lone'), text: 'hello' });
    await usageReaches(at.fleet, 'lone', requests + 1);
  });
}
