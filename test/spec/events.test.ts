/**
 * Tests the chapter "Events" of the specification on every streaming API: answers that end early, parts that stay delivered,
 * and request records.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { defaultForwardSettings } from '../../data-plane/nodes/forward.ts';
import type { RefusalType } from '../../schemas/api/refusals.ts';
import type { DemoNodeId } from '../../tools/dev/demo-fleet.ts';
import { parseBehaviour } from '../simulator/behaviour.ts';
import { type Answer, call, chat, expectRefusal } from '../support/api.ts';
import { scaledMs } from '../support/budget.ts';
import { startFleet, type TestFleet } from '../support/fleet.ts';
import { hold } from '../support/held.ts';
import { specFleet, stackHost, stacks } from '../support/spec-fleet.ts';
import { spoiltBeginnings, spoiltStreams } from '../support/spoilt-streams.ts';
import { type AnswerSurface, answerSurfaces } from '../support/surface-answers.ts';
import { recordedIds, requestIdOf, usageOf, usageReaches } from '../support/witness.ts';

let fleet: TestFleet;
let key: string;
beforeAll(async () => {
  fleet = await startFleet({
    fleet: specFleet,
    gateway: { forwarding: { ...defaultForwardSettings, firstEventMs: 3000, betweenEventsMs: 300 } },
  });
  key = (await fleet.key('birch')).value;
});
afterAll(() => fleet.close());
afterEach(() => {
  for (const node of Object.values(fleet.nodes)) node.setBehaviour(parseBehaviour({}));
});

interface Row {
  readonly host: string;
  readonly node: DemoNodeId;
  readonly path: string;
  /** Refusal that the client receives if the request's node fails. */
  readonly refusal: RefusalType;
  body(text: string): object;
  /** Request fields that make the model think. */
  readonly thinking: object;
  readonly tools: object;
  /** Pattern of frames that only a completed stream contains. */
  readonly terminal: RegExp;
  /** Pattern of parts of an answer that a refusal must not contain. */
  readonly answered: RegExp;
}

const parameters = { type: 'object', required: ['city', 'country', 'day'] };
const messages = (text: string) => [{ role: 'user', content: text }];
const stack = { host: stackHost('heron'), node: 'birch-s1', refusal: 'TargetNotServingError' } as const;

/** How the organisation birch uses each API: the pool for chats, and its own stack for messages and responses. */
const rows: Readonly<Record<AnswerSurface['name'], Row>> = {
  chat: {
    ...{ host: '127.0.0.1', node: 'pool-1', path: '/v1/chat/completions' },
    refusal: 'InferenceUnavailableError',
    body: (text) => ({ messages: messages(text), stream_options: { include_usage: true } }),
    thinking: { reasoning_effort: 'high' },
    tools: { tools: [{ type: 'function', function: { name: 'weather', parameters } }] },
    terminal: /\[DONE\]/,
    answered: /"choices"|"usage"|chatcmpl-/,
  },
  messages: {
    ...{ ...stack, path: '/v1/messages' },
    body: (text) => ({ messages: messages(text), max_tokens: 50 }),
    thinking: { output_config: { effort: 'high' } },
    tools: { tools: [{ name: 'weather', input_schema: parameters }] },
    terminal: /message_stop|message_delta/,
    answered: /"content"|"usage"|msg_/,
  },
  responses: {
    ...{ ...stack, path: '/v1/responses' },
    body: (text) => ({ input: text }),
    thinking: { reasoning: { effort: 'high' }, store: false },
    tools: { tools: [{ type: 'function', name: 'weather', parameters }] },
    terminal: /response\.(completed|incomplete|failed)/,
    answered: /"output"|"usage"|resp_/,
  },
};

describe.each(answerSurfaces)('$name:', ({ name, readStream, readWhole }) => {
  const { host, node: nodeId, path, refusal, body, thinking, tools, terminal, answered } = rows[name];
  beforeAll(async () => {
    const surface = name === 'messages' ? 'anthropic' : 'openai';
    await fleet.admin.call('PUT', `/stacks/${stacks.heron}/surface`, { surface });
    await fleet.settle();
  });

  const bodyOf = (text: string, more: object): object => {
    const { stream_options, ...rest } = body(text) as { stream_options?: object };
    const isStream = 'stream' in more && more.stream === true;
    return { model: 'echo-small', ...rest, ...(isStream && stream_options && { stream_options }), ...more };
  };
  const ask = (text: string, more: object = {}): Promise<Answer> =>
    call({ ...{ port: fleet.port(), host, key, method: 'POST', path }, body: bodyOf(text, more) });
  const spoil = (fault: Parameters<typeof parseBehaviour>[0]): void =>
    fleet.nodes[nodeId].setBehaviour(parseBehaviour({ rules: [{ fault }] }));
  /** Returns the request ids of those answers that are recorded for birch. */
  const recordedOf = async (answers: readonly Answer[]): Promise<string[]> => {
    fleet.nodes[nodeId].setBehaviour(parseBehaviour({}));
    const ids = await recordedIds(fleet, 'birch', await ask('hello there'));
    return answers.map(requestIdOf).filter((id) => ids.includes(id));
  };

  const turns = [
    { what: 'a text', text: 'hello there', more: {} },
    { what: 'thoughts and a text', text: 'hello there', more: thinking },
    { what: 'a tool call', text: 'call weather', more: tools },
  ];

  test.each(turns)(
    'What the service does 1: $what is the same streamed as not streamed, and both are recorded',
    async ({ text, more }) => {
      const [whole, streamed] = [await ask(text, more), await ask(text, { ...more, stream: true })];
      expect([whole.status, streamed.status, streamed.whole]).toEqual([200, 200, true]);
      const { ids, ...read } = readStream(streamed.content);
      expect(read).toEqual({ ...readWhole(JSON.parse(whole.content)), ids: undefined });
      expect(await recordedOf([whole, streamed])).toEqual([whole, streamed].map(requestIdOf));
    },
  );

  test.each(turns)(
    'Stream behaviour: $what ended early by its node has no terminal frame, is closed, and is not recorded',
    async ({ text, more }) => {
      const uncut = await ask(text, { ...more, stream: true });
      const full = readStream(uncut.content);
      const cut: Answer[] = [];
      for (const fault of spoiltStreams) {
        spoil(fault);
        const answer = await ask(text, { ...more, stream: true });
        cut.push(answer);
        const why = JSON.stringify(fault);
        expect([answer.status, answer.whole], why).toEqual([200, false]);
        expect(answer.content, why).not.toMatch(terminal);
        expect(answer.content, why).not.toMatch(/error(?!":null)/);
        // Text that was already delivered stays valid.
        const read = readStream(answer.content.slice(0, answer.content.lastIndexOf('\n\n') + 2));
        expect('tools' in more ? answer.content : read.text + read.thoughts, why).not.toBe('');
        for (const part of ['text', 'thoughts'] as const)
          expect(full[part].startsWith(read[part]), why).toBe(true);
        for (const [at, [called, input]] of read.calls.entries())
          expect([full.calls[at]?.[0], full.calls[at]?.[1].startsWith(input)], why).toEqual([called, true]);
      }
      expect(await recordedOf([uncut, ...cut])).toEqual([requestIdOf(uncut)]);
    },
  );

  test.each(spoiltBeginnings)(
    'Stream behaviour, Errors 3, Errors 6: a failure before the first event is a refusal, and not recorded ($kind)',
    async (fault) => {
      spoil(fault);
      const answers = [await ask('hello there', { stream: true }), await ask('hello there')];
      for (const answer of answers) {
        expectRefusal(answer, refusal);
        expect(answer.content).not.toMatch(answered);
      }
      expect(await recordedOf(answers)).toEqual([]);
    },
  );

  test.each([{ kind: 'cut', afterEvents: 1, reset: true }, { kind: 'finish-abort' }])(
    'Errors: a non-streamed answer that its node ends early is refused and not recorded ($kind)',
    async (fault) => {
      for (const { text, more } of turns) {
        spoil(fault);
        const answer = await ask(text, more);
        expectRefusal(answer, refusal);
        expect(answer.content).not.toMatch(answered);
        expect(await recordedOf([answer])).toEqual([]);
      }
    },
  );

  test.each([true, false])(
    'Stream behaviour: a request cancelled by its client is stopped at the node and not recorded: streamed %s',
    async (stream) => {
      const node = fleet.nodes[nodeId];
      const before = await usageOf(fleet, 'birch');
      spoil({ kind: stream ? 'stall-after' : 'stall', ...(stream && { afterEvents: 3 }) });
      const { abortedByClient } = node.stats();
      const more = { messages: undefined, ...bodyOf('hello there', { stream }) };
      const held = await hold({ port: fleet.port(), key, model: 'echo-small', host, path, more, at: node });
      if (stream)
        await vi.waitUntil(() => held.received().includes('data: '), { timeout: 5000, interval: 2 });
      held.leave();
      // If the request were not cancelled, the node would stall until its time-out.
      await vi.waitUntil(() => node.stats().inFlight === 0, { timeout: scaledMs(1000), interval: 2 });
      expect(node.stats().abortedByClient).toBe(abortedByClient + 1);
      node.setBehaviour(parseBehaviour({}));
      const { promptTokens = 0, completionTokens = 0 } = readWhole(
        JSON.parse((await ask('hello there')).content),
      );
      const after = await usageReaches(fleet, 'birch', before.requests + 1);
      expect(after.totalTokens - before.totalTokens).toBe(promptTokens + completionTokens);
    },
  );

  test('Stream behaviour: a completed stream is recorded once, with the tokens in its last event', async () => {
    const before = await usageOf(fleet, 'birch');
    const read = readStream((await ask('say 12 words', { stream: true })).content);
    expect(read.completionTokens).toBe(12);
    const after = await usageReaches(fleet, 'birch', before.requests + 1);
    expect(after.totalTokens - before.totalTokens).toBe(Number(read.promptTokens) + 12);
  });
});

test('Stream behaviour: a stream is recorded even if its client did not request usage', async () => {
  const before = await usageOf(fleet, 'birch');
  const ask = { port: fleet.port(), key, model: 'echo-small' };
  const whole = JSON.parse((await chat(ask)).content).usage.total_tokens;
  const answer = await chat({ ...ask, more: { stream: true } });
  expect(answer.content).not.toContain('total_tokens');
  const after = await usageReaches(fleet, 'birch', before.requests + 2);
  expect(after.totalTokens - before.totalTokens).toBe(2 * whole);
});

test.each(spoiltBeginnings)(
  'Stream behaviour, Errors 3: embeddings that fail at their node are refused ($kind)',
  async (fault) => {
    fleet.nodes['pool-1'].setBehaviour(parseBehaviour({ rules: [{ fault }] }));
    const body = { model: 'echo-embed', input: 'a' };
    const answer = await call({ port: fleet.port(), key, method: 'POST', path: '/v1/embeddings', body });
    expectRefusal(answer, 'InferenceUnavailableError');
  },
);
