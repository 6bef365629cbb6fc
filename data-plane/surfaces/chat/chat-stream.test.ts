/** Streams of real engines, and of engines that misbehave, as the frames that a client gets. */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import type { AnswerFacts } from '../../answer/chat-parts.ts';
import { SseReader } from '../../answer/sse-reader.ts';
import { SurfaceStream } from '../../answer/surface-stream.ts';
import { ChatWriter } from './chat-stream.ts';
import type { ChatContext } from './shape-chat.ts';

const facts: AnswerFacts = {
  unique: '0123456789abcdefghij',
  created: 1_800_000_000,
  model: 'asked',
  choices: 1,
  logprobs: false,
  tools: false,
  firstToolCallOnly: false,
  promptTextBytes: 40,
  most: { promptTokens: 600, completionTokens: 50 },
};

const captured = (name: string) =>
  readFileSync(new URL(`../../../test/fixtures/captures/${name}.sse`, import.meta.url));

interface Outcome {
  readonly stream: SurfaceStream;
  /** As they go over the wire. */
  readonly frames: string[];
  /** The chunks in them, without the terminator. */
  readonly chunks: Chunk[];
}

interface Chunk {
  readonly choices: {
    index: number;
    delta: Record<string, unknown>;
    finish_reason: string | null;
    logprobs: unknown;
  }[];
  readonly usage?: unknown;
}

/** Runs bytes through reader and stream, then ends the body, as a node that closes its connection cleanly. */
function run(pieces: readonly Uint8Array[], changes: Partial<AnswerFacts & ChatContext> = {}): Outcome {
  const known = { ...facts, ...changes };
  const stream = new SurfaceStream(known, new ChatWriter(known, { includeUsage: false, ...changes }));
  const frames: string[] = [];
  const reader = new SseReader({
    onData: (data) => frames.push(...stream.push(data)),
    onFailure: (failure) => stream.fail(failure),
  });
  for (const piece of pieces) reader.push(piece);
  stream.end();
  const chunks = frames
    .filter((frame) => !frame.includes('[DONE]'))
    .map((frame) => JSON.parse(frame.slice(6)) as Chunk);
  return { stream, frames, chunks };
}

/** Runs events given as values; a text is the data of an event as it stands. */
function runEvents(
  events: readonly (object | string)[],
  changes: Partial<AnswerFacts & ChatContext> = {},
): Outcome {
  const text = events
    .map((event) => `data: ${typeof event === 'string' ? event : JSON.stringify(event)}\n\n`)
    .join('');
  return run([Buffer.from(text)], changes);
}

const chunk = (delta: object, finish: string | null = null, index = 0) => ({
  id: 'x',
  model: 'm',
  choices: [{ index, delta, finish_reason: finish }],
});

test.each([
  'vllm/17-chat-stream-usage',
  'sglang/17-chat-stream-usage',
  'llamacpp/17-chat-stream-usage',
  'ollama/17-chat-stream-usage',
  'sglang/232-tools-required-complete-stream',
  'llamacpp/206-tools-required-qwen-template-stream',
])('each frame has the members of the shape, and no others: %s', (name) => {
  const { chunks } = run([captured(name)], { tools: true, includeUsage: true });
  for (const one of chunks) {
    expect(Object.keys(one)).toEqual(['id', 'object', 'created', 'model', 'choices', 'usage']);
    expect(one).toMatchObject({
      id: `chatcmpl-${facts.unique}`,
      object: 'chat.completion.chunk',
      created: 1_800_000_000,
      model: 'asked',
    });
  }
});

test('usage that was not asked for is left out, and usage asked for comes once, at the end', () => {
  for (const name of ['vllm', 'sglang', 'llamacpp', 'ollama']) {
    const bytes = [captured(`${name}/17-chat-stream-usage`)];
    expect(run(bytes).frames.join('')).not.toContain('usage');
    const { chunks } = run(bytes, { includeUsage: true });
    expect(chunks.slice(0, -1).every(({ usage }) => usage === null)).toBe(true);
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: 6 } });
  }
});

test.each(['vllm', 'sglang'])('two choices interleave and both must end: %s', (engine) => {
  const outcome = run([captured(`${engine}/61-n2-stream`)], { choices: 2 });
  expect(outcome.stream.state).toBe('completed');
  for (const index of [0, 1]) {
    const own = outcome.chunks.flatMap(({ choices }) => choices).filter((choice) => choice.index === index);
    expect(own[0]?.delta).toMatchObject({ role: 'assistant' });
    expect(own.at(-1)?.finish_reason).toBe('length');
  }
});

test('an engine that ignores the number of choices has not completed', () => {
  const outcome = run([captured('ollama/61-n2-stream')], { choices: 2 });
  expect(outcome.stream.state).toBe('failed');
  expect(outcome.frames.join('')).not.toContain('[DONE]');
});

const toolDeltas = (outcome: Outcome) =>
  outcome.chunks.flatMap(({ choices }) =>
    choices.flatMap(({ delta }) => (delta['tool_calls'] as ToolDelta[]) ?? []),
  );

interface ToolDelta {
  readonly index: number;
  readonly id?: string;
  readonly type?: string;
  readonly function: { readonly name?: string; readonly arguments: string };
}

test.each([
  ['vllm/232-tools-required-complete-stream', undefined],
  ['sglang/232-tools-required-complete-stream', '{"unit": "c"}'],
  ['llamacpp/206-tools-required-qwen-template-stream', undefined],
])('a tool call is opened once and then only grows: %s', (name, whole) => {
  const outcome = run([captured(name)], { tools: true });
  expect(outcome.stream.state).toBe('completed');
  const deltas = toolDeltas(outcome);
  const first = deltas.filter(({ index }) => index === 0);
  expect(first[0]).toMatchObject({ type: 'function', function: { name: 'set_unit' } });
  expect(first[0]?.id).toMatch(/^call_[a-z0-9]+$/);
  for (const later of first.slice(1)) {
    expect(Object.keys(later)).toEqual(['index', 'function']);
    expect(Object.keys(later.function)).toEqual(['arguments']);
  }
  if (whole !== undefined) expect(first.map((delta) => delta.function.arguments).join('')).toBe(whole);
});

test('a null in a later delta of a call overwrites nothing', () => {
  const outcome = runEvents(
    [
      chunk({
        role: 'assistant',
        tool_calls: [{ index: 0, id: 'a', function: { name: 'f', arguments: '' } }],
      }),
      chunk({
        role: null,
        content: null,
        tool_calls: [{ index: 0, id: null, function: { name: null, arguments: '{}' } }],
      }),
      chunk({}, 'tool_calls'),
      '[DONE]',
    ],
    { tools: true },
  );
  expect(outcome.frames.join('')).not.toMatch(/"(id|name|role)":null/);
  expect(toolDeltas(outcome).map((delta) => delta.function.arguments)).toEqual(['', '{}']);
  expect(outcome.chunks[0]?.choices[0]?.delta).toMatchObject({ role: 'assistant', content: null });
});

const calling = (name: string, args: unknown) =>
  chunk({ tool_calls: [{ index: 0, function: { name, arguments: args } }] });

test.each([
  ['""', ''],
  ['null', null],
  ['left out', undefined],
])('a call without arguments gets an empty object before its end: %s', (_, given) => {
  const outcome = runEvents([calling('f', given), chunk({}, 'stop'), '[DONE]'], { tools: true });
  expect(toolDeltas(outcome).map((delta) => delta.function.arguments)).toEqual(['', '{}']);
  expect(outcome.chunks.at(-1)?.choices[0]?.finish_reason).toBe('tool_calls');
  const cut = runEvents([calling('f', given), chunk({}, 'length'), '[DONE]'], { tools: true });
  expect(toolDeltas(cut).map((delta) => delta.function.arguments)).toEqual(['']);
});

test('calls of one number without ids are two once the second begins an object', () => {
  const indexes = (...events: object[]) =>
    toolDeltas(runEvents([...events, chunk({}, 'stop'), '[DONE]'], { tools: true })).map(
      ({ index }) => index,
    );
  expect(indexes(calling('f', '{"a":1}'), calling('f', '{"a":2}'))).toEqual([0, 1]);
  expect(indexes(calling('f', '{"a"'), calling('f', ':1}'), calling('g', '{'), calling('g', '}'))).toEqual([
    0, 0, 1, 1,
  ]);
  // The name is repeated within one object.
  expect(indexes(calling('f', '{"a":'), calling('f', '{"b":1}'), calling('f', '}'))).toEqual([0, 0, 0]);
  expect(indexes(calling('f', '{"a":"}'), calling('f', '{"}'))).toEqual([0, 0]);
});

const logprobs = {
  content: [
    {
      id: 32,
      token: ' ',
      bytes: [32],
      logprob: -0.5,
      top_logprobs: [{ id: 1, token: 'a', logprob: -1, bytes: null }],
    },
  ],
};

test('log probabilities pass where they were asked for, with the members of the shape only', () => {
  const events = [
    { choices: [{ index: 0, delta: { content: ' ' }, logprobs, finish_reason: 'stop' }] },
    '[DONE]',
  ];
  expect(runEvents(events).chunks[0]?.choices[0]?.logprobs).toBeNull();
  expect(runEvents(events, { logprobs: true }).chunks[0]?.choices[0]?.logprobs).toEqual({
    content: [
      { token: ' ', logprob: -0.5, bytes: [32], top_logprobs: [{ token: 'a', logprob: -1, bytes: null }] },
    ],
    refusal: null,
  });
});

test('a delta that adds nothing gives no frame', () => {
  const { frames } = runEvents([
    chunk({ content: 'a' }),
    chunk({ role: 'assistant', content: '' }),
    chunk({}),
  ]);
  expect(frames).toHaveLength(1);
});
