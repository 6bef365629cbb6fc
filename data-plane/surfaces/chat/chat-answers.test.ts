/** Tests the format of chat completions, whole and streamed. answers.test.ts covers properties that all APIs share. */
import { expect, test } from 'vitest';
import {
  bytesOf,
  captured,
  capturedJson,
  chatSurface,
  chunk,
  type NodeEvent,
  ranBy,
  rebuiltBy,
  type Setup,
} from '../../../test/support/surface-answers.ts';
import { NodeFailure } from '../common/node-failure.ts';
import { usageBounds } from '../common/usage.ts';
import { shapeChat } from './shape-chat.ts';

const unique = '0123456789abcdef';
const engines = ['vllm', 'sglang', 'llamacpp', 'ollama'] as const;

interface Chunk {
  readonly choices: {
    index: number;
    delta: Record<string, unknown>;
    finish_reason: string | null;
    logprobs: unknown;
  }[];
  readonly usage?: unknown;
}

/** Runs a node's stream and returns the chunks in its frames, without the terminating frame. */
function run(bytes: Uint8Array, wanted: Setup = {}) {
  const { stream, wire } = ranBy(chatSurface, [bytes], wanted);
  const frames = wire.split('\n\n').filter((frame) => frame !== '' && !frame.includes('[DONE]'));
  return { stream, wire, chunks: frames.map((frame) => JSON.parse(frame.slice(6)) as Chunk) };
}
const runEvents = (events: readonly NodeEvent[], wanted?: Setup) => run(bytesOf(events), wanted);

const capturedUsage = {
  vllm: {},
  sglang: { completion_tokens_details: { reasoning_tokens: 0 } },
  llamacpp: { prompt_tokens_details: { cached_tokens: 5 } },
  ollama: { prompt_tokens: 24, total_tokens: 30 },
};

test.each([
  ['vllm', ' w atheouzu'],
  ['sglang', ' w atheouzu'],
  ['llamacpp', '  the  the  the'],
  ['ollama', ' the  the  the '],
] as const)(
  'Routing, rules: a completion is rebuilt whole and does not reveal where it ran: %s',
  (engine, content) => {
    expect(rebuiltBy(chatSurface, capturedJson(`${engine}/15-chat`)).body).toEqual({
      id: `chatcmpl-${unique}`,
      object: 'chat.completion',
      created: 1_800_000_000,
      model: 'asked',
      choices: [
        {
          ...{ index: 0, message: { role: 'assistant', content, refusal: null } },
          ...{ logprobs: null, finish_reason: 'length' },
        },
      ],
      usage: { prompt_tokens: 23, completion_tokens: 6, total_tokens: 29, ...capturedUsage[engine] },
    });
  },
);

test.each([
  ...engines.map((engine) => `${engine}/17-chat-stream-usage`),
  'sglang/232-tools-required-complete-stream',
  'llamacpp/206-tools-required-qwen-template-stream',
])('each frame has exactly the members of its shape: %s', (name) => {
  for (const one of run(captured(name), { tools: true }).chunks) {
    expect(Object.keys(one)).toEqual(['id', 'object', 'created', 'model', 'choices', 'usage']);
    const head = { id: `chatcmpl-${unique}`, object: 'chat.completion.chunk', created: 1_800_000_000 };
    expect(one).toMatchObject({ ...head, model: 'asked' });
  }
});

test('usage is left out unless requested, and then comes once, at the end', () => {
  for (const engine of engines) {
    const bytes = captured(`${engine}/17-chat-stream-usage`);
    expect(run(bytes, { fields: { stream_options: undefined } }).wire).not.toContain('usage');
    const { chunks } = run(bytes);
    expect(chunks.slice(0, -1).every(({ usage }) => usage === null)).toBe(true);
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: 6 } });
  }
});

const two = { fields: { n: 2 } };

test.each(['vllm', 'sglang'])('two choices interleave, and both must end: %s', (engine) => {
  const { stream, chunks } = run(captured(`${engine}/61-n2-stream`), two);
  expect(stream.state).toBe('completed');
  for (const index of [0, 1]) {
    const own = chunks.flatMap(({ choices }) => choices).filter((choice) => choice.index === index);
    expect(own[0]?.delta).toMatchObject({ role: 'assistant' });
    expect(own.at(-1)?.finish_reason).toBe('length');
  }
});

test('an answer from an engine that ignores the number of choices is not complete', () => {
  const { stream, wire } = run(captured('ollama/61-n2-stream'), two);
  expect(stream.state).toBe('failed');
  expect(wire).not.toContain('[DONE]');
});

test('non-streamed choices come in order, each once', () => {
  const choice = (index: number) => ({ index, message: { content: `c${index}` }, finish_reason: 'stop' });
  const { body } = rebuiltBy(chatSurface, { choices: [choice(1), choice(0)], usage: {} }, two);
  expect((body as { choices: { index: number }[] }).choices.map(({ index }) => index)).toEqual([0, 1]);
  expect(() => rebuiltBy(chatSurface, { choices: [choice(0), choice(0)] }, two)).toThrow(NodeFailure);
});

interface ToolDelta {
  readonly index: number;
  readonly id?: string;
  readonly function: { readonly name?: string; readonly arguments: string };
}

const toolDeltas = ({ chunks }: { readonly chunks: readonly Chunk[] }) =>
  chunks.flatMap(({ choices }) => choices.flatMap(({ delta }) => (delta['tool_calls'] as ToolDelta[]) ?? []));

test.each([
  ['vllm/232-tools-required-complete-stream', undefined],
  ['sglang/232-tools-required-complete-stream', '{"unit": "c"}'],
  ['llamacpp/206-tools-required-qwen-template-stream', undefined],
])('a tool call is opened once and then only grows: %s', (name, whole) => {
  const outcome = run(captured(name), { tools: true });
  expect(outcome.stream.state).toBe('completed');
  const first = toolDeltas(outcome).filter(({ index }) => index === 0);
  expect(first[0]).toMatchObject({ type: 'function', function: { name: 'set_unit' } });
  expect(first[0]?.id).toMatch(/^call_[a-z0-9]+$/);
  for (const later of first.slice(1)) {
    expect(Object.keys(later)).toEqual(['index', 'function']);
    expect(Object.keys(later.function)).toEqual(['arguments']);
  }
  if (whole !== undefined) expect(first.map((delta) => delta.function.arguments).join('')).toBe(whole);
});

const part = (name: unknown, input: unknown, more: object = {}) => ({
  tool_calls: [{ index: 0, ...more, function: { name, arguments: input } }],
});

test('a null in a call’s later delta overwrites nothing', () => {
  const first = chunk({ role: 'assistant', ...part('f', '', { id: 'a' }) });
  const later = chunk({ role: null, content: null, ...part(null, '{}', { id: null }) });
  const outcome = runEvents([first, later, chunk({}, 'tool_calls'), '[DONE]'], { tools: true });
  expect(outcome.wire).not.toMatch(/"(id|name|role)":null/);
  expect(toolDeltas(outcome).map((delta) => delta.function.arguments)).toEqual(['', '{}']);
  expect(outcome.chunks[0]?.choices[0]?.delta).toMatchObject({ role: 'assistant', content: null });
});

test('a call whose arguments the token limit cut off is not completed, because clients would run it', () => {
  for (const given of ['', ' \n', null, undefined]) {
    const message = part('f', given);
    const whole = { choices: [{ index: 0, message, finish_reason: 'length' }] };
    const [[, input] = []] = chatSurface.readWhole(rebuiltBy(chatSurface, whole, { tools: true }).body).calls;
    expect(input?.trim()).toBe('');
    const cut = runEvents([chunk(message), chunk({}, 'length'), '[DONE]'], { tools: true });
    expect(toolDeltas(cut).map((delta) => delta.function.arguments.trim())).toEqual(['']);
  }
});

test('calls with the same index and no ids become two once the second begins an object', () => {
  const indexes = (...calls: readonly (readonly [name: string, input: string])[]) => {
    const events = calls.map(([name, input]) => chunk(part(name, input)));
    const outcome = runEvents([...events, chunk({}, 'stop'), '[DONE]'], { tools: true });
    return toolDeltas(outcome).map(({ index }) => index);
  };
  expect(indexes(['f', '{"a":1}'], ['f', '{"a":2}'])).toEqual([0, 1]);
  expect(indexes(['f', '{"a"'], ['f', ':1}'], ['g', '{'], ['g', '}'])).toEqual([0, 0, 1, 1]);
  // The engine repeats the name before the JSON object is complete, so all three pieces belong to the same call.
  expect(indexes(['f', '{"a":'], ['f', '{"b":1}'], ['f', '}'])).toEqual([0, 0, 0]);
  expect(indexes(['f', '{"a":"}'], ['f', '{"}'])).toEqual([0, 0]);
});

test('log probabilities are passed on if requested, with only the members of their shape', () => {
  const alternative = { token: 'a', logprob: -1, bytes: null };
  const token = { token: ' ', logprob: -0.5, bytes: [32] };
  const content = [{ id: 32, ...token, top_logprobs: [{ id: 1, ...alternative }] }];
  const events = [chunk({ content: ' ' }, 'stop', { logprobs: { content } }), '[DONE]'];
  const read = (fields: object) => runEvents(events, { fields }).chunks[0]?.choices[0]?.logprobs;
  expect(read({})).toBeNull();
  expect(read({ logprobs: true, top_logprobs: 1 })).toEqual({
    content: [{ ...token, top_logprobs: [alternative] }],
    refusal: null,
  });
});

test('a delta that adds nothing produces no frame', () => {
  const events = [chunk({ content: 'a' }), chunk({ role: 'assistant', content: '' }), chunk({})];
  expect(runEvents(events).chunks).toHaveLength(1);
});

test('the bounds on usage allow for images and for tools as templates indent them', () => {
  const tools = [{ type: 'function', function: { name: 'set_unit' } }];
  const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,aGk=' } };
  const messages = [{ role: 'user', content: [image, { type: 'text', text: 'what is it?' }] }];
  const bounds = (fields: object, windowTokens: number | null) => {
    const body = { model: 'asked', messages: [{ role: 'user', content: 'hi' }], ...fields };
    return usageBounds(shapeChat(body).asked, { maxTokens: 7, windowTokens });
  };
  expect(bounds({ messages, n: 3 }, 100_000)).toEqual({ promptTokens: 100_000, completionTokens: 21 });
  expect(bounds({ messages }, null).promptTokens).toBeGreaterThan(65_536);
  const indented = Buffer.byteLength(JSON.stringify(tools, null, 4));
  expect(bounds({ tools }, 8_000).promptTokens).toBeGreaterThan(indented);
});
