/** Streams of real engines, and of engines that misbehave, as the frames that a client gets. */
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { ChatContext } from './chat-parts.ts';
import { ChatStream } from './chat-stream.ts';
import { SseReader } from './sse-reader.ts';

const context: ChatContext = {
  unique: '0123456789abcdefghij',
  created: 1_800_000_000,
  model: 'asked',
  choices: 1,
  includeUsage: false,
  logprobs: false,
  tools: false,
  firstToolCallOnly: false,
  promptTextBytes: 40,
  most: { promptTokens: 600, completionTokens: 50 },
};

const captured = (name: string) =>
  readFileSync(new URL(`../../test/fixtures/captures/${name}.sse`, import.meta.url));

interface Outcome {
  readonly stream: ChatStream;
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
function run(pieces: readonly Uint8Array[], changes: Partial<ChatContext> = {}): Outcome {
  const stream = new ChatStream({ ...context, ...changes });
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
function runEvents(events: readonly (object | string)[], changes: Partial<ChatContext> = {}): Outcome {
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

const contentOf = ({ chunks }: Outcome, index = 0) =>
  chunks
    .flatMap(({ choices }) => choices)
    .filter((choice) => choice.index === index)
    .map(({ delta }) => delta['content'] ?? '')
    .join('');

test.each([
  ['vllm/17-chat-stream-usage', ' w atheouzu', 'length', { promptTokens: 23, completionTokens: 6 }],
  [
    'sglang/17-chat-stream-usage',
    ' w atheouzu',
    'length',
    { promptTokens: 23, completionTokens: 6, reasoningTokens: 0 },
  ],
  [
    'llamacpp/17-chat-stream-usage',
    '  the  the  the',
    'length',
    { promptTokens: 23, completionTokens: 6, cachedTokens: 22 },
  ],
  ['ollama/17-chat-stream-usage', ' the  the  the ', 'length', { promptTokens: 24, completionTokens: 6 }],
] as const)('a whole stream is completed: %s', (name, content, finish, usage) => {
  const outcome = run([captured(name)]);
  expect(outcome.stream.state).toBe('completed');
  expect(contentOf(outcome)).toBe(content);
  expect(outcome.stream.usage).toEqual(usage);
  expect(outcome.frames.at(-1)).toBe('data: [DONE]\n\n');
  expect(outcome.chunks[0]?.choices[0]?.delta).toMatchObject({ role: 'assistant' });
  const roles = outcome.chunks.filter(({ choices }) => 'role' in (choices[0]?.delta ?? {}));
  expect(roles).toHaveLength(1);
  expect(outcome.chunks.at(-1)?.choices[0]?.finish_reason).toBe(finish);
});

test.each([
  'vllm/17-chat-stream-usage',
  'sglang/17-chat-stream-usage',
  'llamacpp/17-chat-stream-usage',
  'ollama/17-chat-stream-usage',
  'sglang/232-tools-required-complete-stream',
  'llamacpp/206-tools-required-qwen-template-stream',
])('Routing, rules: no frame reveals where it ran: %s', (name) => {
  const { frames, chunks } = run([captured(name)], { tools: true, includeUsage: true });
  for (const one of chunks) {
    expect(Object.keys(one)).toEqual(['id', 'object', 'created', 'model', 'choices', 'usage']);
    expect(one).toMatchObject({
      id: `chatcmpl-${context.unique}`,
      object: 'chat.completion.chunk',
      created: 1_800_000_000,
      model: 'asked',
    });
  }
  const text = frames.join('');
  for (const word of [
    'fingerprint',
    'timings',
    'matched_stop',
    'stop_reason',
    'token_ids',
    'tiny',
    'vllm',
    'ollama',
    'call_00d9',
    'fq5HL2',
  ]) {
    expect(text).not.toContain(word);
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

test.each([
  ['vllm/71-json-schema-bad-stream', 'error', false],
  ['sglang/71-json-schema-bad-stream', 'error', false],
  ['vllm/97-mid-stream-kill9-enginecore', 'error', true],
  ['vllm/97-mid-stream-term-apiserver', 'cut', true],
  ['sglang/99-mid-stream-kill9-scheduler', 'cut', true],
  ['llamacpp/98-mid-stream-kill9', 'cut', true],
  ['llamacpp/98-mid-stream-term', 'cut', true],
  ['ollama/103-mid-stream-kill9-runner-only', 'cut', true],
  ['ollama/103-mid-stream-term-server', 'cut', true],
])(
  'Events: a stream that ends early has failed and closes without a terminal frame: %s, %s',
  (name, kind, began) => {
    const { stream, frames, chunks } = run([captured(name)], { includeUsage: true });
    expect(stream.state).toBe('failed');
    expect(stream.failure?.kind).toBe(kind);
    expect(frames.length > 0).toBe(began);
    const text = frames.join('');
    expect(text).not.toContain('[DONE]');
    expect(text).not.toContain('error');
    expect(chunks.every(({ choices }) => choices[0]?.finish_reason === null)).toBe(true);
  },
);

test('an engine that finishes its stream after a stop was requested has completed', () => {
  expect(run([captured('sglang/99-mid-stream-term-server')]).stream.state).toBe('completed');
});

test('until the first good event the stream waits, so that a refusal is still possible', () => {
  const stream = new ChatStream(context);
  expect(stream.state).toBe('waiting');
  stream.push('{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":0}}');
  expect(stream.state).toBe('waiting');
  stream.push(JSON.stringify(chunk({ role: 'assistant' })));
  expect(stream.state).toBe('streaming');
});

test.each([
  ['abort', 'aborted'],
  ['error', 'aborted'],
  ['load', 'aborted'],
  ['', 'aborted'],
])('the finish reason %j is none: the stream has failed', (reason, kind) => {
  const outcome = runEvents([chunk({ content: 'a' }), chunk({}, reason), '[DONE]']);
  expect(outcome.stream.failure?.kind).toBe(kind);
  expect(contentOf(outcome)).toBe('a');
  expect(outcome.frames.join('')).not.toContain('[DONE]');
});

test.each(['stop', 'length', 'tool_calls', 'content_filter', 'function_call'])(
  'the finish reason %s is legal',
  (reason) => {
    expect(runEvents([chunk({ content: 'a' }, reason), '[DONE]']).stream.state).toBe('completed');
  },
);

test.each([
  ['no JSON', '{"choices":['],
  ['no object', '5'],
  ['no choices', '{"id":"x"}'],
  ['an unknown choice', JSON.stringify(chunk({ content: 'a' }, null, 1))],
  ['content that is no text', JSON.stringify(chunk({ content: [{ type: 'text', text: 'a' }] }))],
  [
    'a tool call without a name',
    JSON.stringify(chunk({ tool_calls: [{ index: 0, id: 'a', function: { arguments: '{' } }] })),
  ],
  [
    'a tool call without an index',
    JSON.stringify(chunk({ tool_calls: [{ id: 'a', function: { name: 'f' } }] })),
  ],
])('a chunk that is malformed fails the stream: %s', (_, data) => {
  const { stream, frames } = runEvents([chunk({ content: 'a' }), data, chunk({}, 'stop'), '[DONE]']);
  expect(stream.failure?.kind).toBe('malformed');
  expect(frames).toHaveLength(1);
});

test.each([
  [
    'more tool calls than an answer may have',
    chunk({
      tool_calls: Array.from({ length: 129 }, (_, index) => ({
        index,
        id: `call-${index}`,
        function: { name: 'f', arguments: '{}' },
      })),
    }),
  ],
  ['more values than are read', { ...chunk({ content: 'b' }), extra: Array(60_000).fill(1) }],
])('a chunk that is too large fails the stream: %s', (_, large) => {
  const { stream, frames } = runEvents([chunk({ content: 'a' }), large, chunk({}, 'stop'), '[DONE]']);
  expect(stream.failure?.kind).toBe('too_large');
  expect(frames).toHaveLength(1);
});

test.each([
  { error: { message: 'SECRET', code: 500 } },
  { error: 'SECRET' },
  { object: 'error', message: 'SECRET' },
  { error: { object: 'error', message: 'SECRET' }, choices: [] },
])('an error frame fails the stream even before [DONE], and its text goes nowhere: %j', (error) => {
  const { stream, frames } = runEvents([chunk({ content: 'a' }), chunk({}, 'stop'), error, '[DONE]']);
  expect(stream.failure?.kind).toBe('error');
  expect(frames.join('') + JSON.stringify(stream.failure) + String(stream.failure?.stack)).not.toContain(
    'SECRET',
  );
  expect(stream.failure?.detail).toEqual(error);
});

test('an error may come as a field or as an event of its own', () => {
  for (const line of ['error: {"code":500}\n\n', 'event: error\ndata: {"choices":[]}\n\n']) {
    const { stream } = run([
      Buffer.from(`data: ${JSON.stringify(chunk({ content: 'a' }, 'stop'))}\n\n${line}data: [DONE]\n\n`),
    ]);
    expect(stream.failure?.kind, line).toBe('error');
  }
});

test('[DONE] before every choice has finished is no completion', () => {
  expect(runEvents([chunk({ content: 'a' }), '[DONE]']).stream.failure?.kind).toBe('cut');
  expect(runEvents(['[DONE]']).stream.failure?.kind).toBe('cut');
});

test('what comes after the end is not looked at', () => {
  const stream = new ChatStream(context);
  for (const event of [JSON.stringify(chunk({ content: 'a' }, 'stop')), '[DONE]']) stream.push(event);
  expect(stream.push('{"error":{}}')).toEqual([]);
  expect(stream.push('[DONE]')).toEqual([]);
  stream.end();
  expect(stream.state).toBe('completed');
});

test('a choice that continues after its end has failed; a repeated end has not', () => {
  expect(runEvents([chunk({ content: 'a' }, 'stop'), chunk({ content: 'b' }), '[DONE]']).stream.state).toBe(
    'failed',
  );
  expect(runEvents([chunk({ content: 'a' }, 'stop'), chunk({}, 'stop'), '[DONE]']).stream.state).toBe(
    'completed',
  );
});

test('usage on the finish chunk counts, the last report wins, and none at all is estimated', () => {
  const withUsage = (completion_tokens: number) => ({
    ...chunk({ content: 'abcd' }, completion_tokens === 3 ? 'stop' : null),
    usage: { prompt_tokens: 9, completion_tokens },
  });
  const reported = runEvents([withUsage(1), withUsage(3), { choices: [], usage: null }, '[DONE]']);
  expect(reported.stream.usage).toEqual({ promptTokens: 9, completionTokens: 3 });
  const unreported = runEvents([chunk({ content: 'abcdefgh' }, 'stop'), '[DONE]'], { includeUsage: true });
  expect(unreported.stream.usage).toEqual({ promptTokens: 10, completionTokens: 2, estimated: true });
  expect(unreported.chunks.at(-1)?.usage).toEqual({
    prompt_tokens: 10,
    completion_tokens: 2,
    total_tokens: 12,
  });
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

const twoCalls = [
  chunk({ tool_calls: [{ index: 0, id: 'a', function: { name: 'f', arguments: '{}' } }] }),
  chunk({ tool_calls: [{ index: 1, id: 'b', function: { name: 'g', arguments: '{' } }] }),
  chunk({ tool_calls: [{ index: 1, function: { arguments: '}' } }] }),
  chunk({}, 'tool_calls'),
  '[DONE]',
];

test('parallel calls pass, and are trimmed to the first where the client allows only one', () => {
  expect(new Set(toolDeltas(runEvents(twoCalls)).map(({ index }) => index))).toEqual(new Set([0, 1]));
  const trimmed = runEvents(twoCalls, { firstToolCallOnly: true });
  expect(toolDeltas(trimmed).map((delta) => delta.function.name)).toEqual(['f']);
  expect(trimmed.stream.state).toBe('completed');
});

test('calls that an engine all numbers 0 get places and ids of their own', () => {
  const calls = ['a', 'b'].map((id) =>
    chunk({ tool_calls: [{ index: 0, id, function: { name: 'f', arguments: '{}' } }] }),
  );
  const deltas = toolDeltas(runEvents([...calls, chunk({}, 'tool_calls'), '[DONE]']));
  expect(deltas.map(({ index }) => index)).toEqual([0, 1]);
  expect(new Set(deltas.map(({ id }) => id)).size).toBe(2);
});

test('an id that the model itself writes stays, because its next prompt must hold it', () => {
  const [delta] = toolDeltas(
    runEvents([
      chunk({ tool_calls: [{ index: 0, id: 'functions.f:0', function: { name: 'f', arguments: '{}' } }] }),
    ]),
  );
  expect(delta?.id).toBe('functions.f:0');
});

test('thoughts have one name, whatever the engine calls them', () => {
  for (const name of ['reasoning', 'reasoning_content']) {
    const outcome = runEvents([chunk({ [name]: 'hm' }), chunk({ content: 'a' }, 'stop'), '[DONE]']);
    expect(outcome.chunks[0]?.choices[0]?.delta).toEqual({
      role: 'assistant',
      content: '',
      reasoning_content: 'hm',
    });
  }
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

test('a tool call that was cut short stays out of the text', () => {
  const outcome = run([captured('vllm/211-tools-truncated-stream')], { tools: true });
  expect(outcome.stream.state).toBe('completed');
  expect(contentOf(outcome)).toBe('');
});

test('an empty chunk without a model is an end, even as the very first', () => {
  const stream = new ChatStream(context);
  const empty = {
    model: '',
    choices: [{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }],
  };
  expect(stream.push(JSON.stringify(empty))).toEqual([]);
  expect(stream.state).toBe('failed');
});

test('a delta that adds nothing gives no frame', () => {
  const { frames } = runEvents([
    chunk({ content: 'a' }),
    chunk({ role: 'assistant', content: '' }),
    chunk({}),
  ]);
  expect(frames).toHaveLength(1);
});

test('the same frames come out however the bytes were cut', () => {
  const names = [
    'vllm/17-chat-stream-usage',
    'sglang/61-n2-stream',
    'llamacpp/98-mid-stream-term',
    'ollama/17-chat-stream-usage',
  ];
  const accents = Buffer.from(
    `data: ${JSON.stringify(chunk({ content: 'é😀ü' }))}\r\n\r\ndata: [DONE]\r\n\r\n`,
  );
  const streams = [...names.map(captured), accents];
  fc.assert(
    fc.property(fc.constantFrom(...streams), fc.array(fc.nat(), { maxLength: 40 }), (bytes, cuts) => {
      const places = [0, ...cuts.map((cut) => cut % bytes.length).sort((a, b) => a - b), bytes.length];
      const pieces = places.slice(1).map((to, at) => bytes.subarray(places[at], to));
      const cut = run(pieces, { choices: 2 });
      const whole = run([bytes], { choices: 2 });
      expect(cut.frames).toEqual(whole.frames);
      expect(cut.stream.state).toBe(whole.stream.state);
    }),
  );
});

test('no data of a node makes a stream throw, or write a terminator after an error', () => {
  const delta = fc.record(
    { content: fc.oneof(fc.string(), fc.constant(null), fc.nat()), tool_calls: fc.jsonValue() },
    { requiredKeys: [] },
  );
  const event = fc.oneof(
    fc.record({
      choices: fc.array(
        fc.record({ index: fc.nat(2), delta, finish_reason: fc.constantFrom(null, 'stop', 'abort') }),
      ),
    }),
    fc.constantFrom<object>({ error: {} }, { choices: null }, { object: 'error' }),
    fc.jsonValue().map((value) => ({ value })),
  );
  fc.assert(
    fc.property(fc.array(fc.oneof(event, fc.constant('[DONE]')), { maxLength: 12 }), (events) => {
      const { stream, frames } = runEvents(events, { choices: 2, includeUsage: true });
      expect(['completed', 'failed']).toContain(stream.state);
      expect(frames.includes('data: [DONE]\n\n')).toBe(stream.state === 'completed');
      for (const frame of frames) expect(frame).toMatch(/^data: .+\n\n$/);
    }),
  );
});
