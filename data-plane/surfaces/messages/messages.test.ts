/** Tests how answers of real engines, and of engines that misbehave, become messages and message events. */
import { expect, test } from 'vitest';
import { readMessageEvents } from '../../../test/support/message-events.ts';
import {
  bytesOf,
  captured,
  capturedJson,
  chunk,
  messagesSurface,
  type NodeEvent,
  ranBy,
  rebuiltBy,
  streamOf,
} from '../../../test/support/surface-answers.ts';
import { NodeFailure } from '../common/node-failure.ts';
import { mintUnique } from '../common/request-id.ts';

const tools = [{ name: 'set_unit', input_schema: { type: 'object' } }];

type Fields = Record<string, unknown>;

const run = (pieces: readonly Uint8Array[], fields: object = {}) =>
  ranBy(messagesSurface, pieces, { fields });
const runEvents = (events: readonly NodeEvent[], fields: object = {}) => run([bytesOf(events)], fields);

const called = (index: number, name: string, added: string) =>
  chunk({ tool_calls: [{ index, id: `id${index}`, function: { name, arguments: added } }] });
const grown = (index: number, added: string) =>
  chunk({ tool_calls: [{ index, function: { arguments: added } }] });
const usageChunk = { choices: [], usage: { prompt_tokens: 9, completion_tokens: 4 } };

const answer = (message: object, finish = 'stop', more: object = {}) => ({
  choices: [{ index: 0, message, finish_reason: finish, ...more }],
  usage: { prompt_tokens: 9, completion_tokens: 4 },
});
const rebuilt = (given: unknown, fields: object = {}) =>
  rebuiltBy(messagesSurface, given, { fields }).body as Fields & { content: Fields[]; usage: Fields };

const failureOf = (act: () => unknown): NodeFailure => {
  try {
    act();
  } catch (error) {
    expect(error).toBeInstanceOf(NodeFailure);
    return error as NodeFailure;
  }
  throw new Error('did not fail');
};

const nullUsage = {
  cache_creation: null,
  inference_geo: null,
  server_tool_use: null,
  service_tier: null,
  speed: null,
};

test('a message has our id, the requested model, and null where there is no value', () => {
  expect(rebuilt(answer({ content: 'hello' }))).toEqual({
    id: 'msg_0123456789abcdef',
    type: 'message',
    role: 'assistant',
    model: 'asked',
    content: [{ type: 'text', text: 'hello' }],
    stop_reason: 'end_turn',
    stop_sequence: null,
    stop_details: null,
    container: null,
    diagnostics: null,
    usage: {
      input_tokens: 9,
      output_tokens: 4,
      cache_read_input_tokens: 0,
      cache_creation_input_tokens: 0,
      output_tokens_details: null,
      ...nullUsage,
    },
  });
});

test('a stream gives the same message and reports usage once, at the end', () => {
  const { stream, wire } = runEvents([
    chunk({ role: 'assistant', content: '' }),
    chunk({ content: 'hel' }),
    chunk({ content: 'lo' }, 'stop'),
    usageChunk,
    '[DONE]',
  ]);
  expect(stream.state).toBe('completed');
  expect(stream.usage).toEqual({ promptTokens: 9, completionTokens: 4 });
  const frames = wire.split('\n\n').filter((frame) => frame !== '');
  expect(frames.map((frame) => JSON.parse(frame.split('\n')[1]?.slice(6) ?? ''))).toEqual([
    {
      type: 'message_start',
      message: {
        ...rebuilt(answer({})),
        content: [],
        stop_reason: null,
        usage: {
          input_tokens: 0,
          output_tokens: 0,
          cache_read_input_tokens: 0,
          cache_creation_input_tokens: 0,
          output_tokens_details: null,
          ...nullUsage,
        },
      },
    },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'hel' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'lo' } },
    { type: 'content_block_stop', index: 0 },
    {
      type: 'message_delta',
      delta: { stop_reason: 'end_turn', stop_sequence: null, stop_details: null, container: null },
      usage: {
        input_tokens: 9,
        output_tokens: 4,
        cache_read_input_tokens: 0,
        cache_creation_input_tokens: 0,
        output_tokens_details: null,
        server_tool_use: null,
      },
    },
    { type: 'message_stop' },
  ]);
});

test('if the node counts the prompt at once, the start reports it, and the end reports the final count', () => {
  const first = { ...chunk({ role: 'assistant' }), usage: { prompt_tokens: 9, completion_tokens: 0 } };
  const running = { ...chunk({ content: 'a' }, 'stop'), usage: { prompt_tokens: 9, completion_tokens: 1 } };
  const details = { prompt_tokens_details: { cached_tokens: 8 } };
  const last = { choices: [], usage: { prompt_tokens: 9, completion_tokens: 2, ...details } };
  const { wire, stream } = runEvents([first, running, last, '[DONE]']);
  const read = readMessageEvents(wire);
  expect(read.start).toMatchObject({
    usage: { input_tokens: 9, cache_read_input_tokens: 0, output_tokens: 0 },
  });
  expect(read.end).toMatchObject({
    usage: { input_tokens: 1, cache_read_input_tokens: 8, output_tokens: 2 },
  });
  expect(stream.usage).toMatchObject({ promptTokens: 9, completionTokens: 2 });
});

const calls = [{ id: 'a', function: { name: 'f', arguments: '{}' } }];

test.each([
  ['stop', {}, { stop_reason: 'a' }, 'stop_sequence', 'a'],
  ['stop', {}, { matched_stop: 'a' }, 'stop_sequence', 'a'],
  ['stop', {}, { stop_reason: null, matched_stop: null }, 'end_turn', null],
  ['stop', {}, { matched_stop: 151_645 }, 'end_turn', null],
  ['stop', {}, { stop_reason: '</s>' }, 'end_turn', null],
  ['stop', { tool_calls: calls }, { stop_reason: 'a' }, 'tool_use', null],
  ['length', {}, { stop_reason: 'a' }, 'max_tokens', null],
])('the finish %s of %j with %j gives %s and stop sequence %s', (finish, message, more, reason, sequence) => {
  const expected = { stop_reason: reason, stop_sequence: sequence };
  const fields = { stop_sequences: ['b', 'a'] };
  expect(rebuilt(answer({ content: 'x', ...message }, finish, more), fields)).toMatchObject(expected);
  const deltas = (message as { tool_calls?: typeof calls }).tool_calls?.map((call) => ({
    index: 0,
    ...call,
  }));
  const { wire } = runEvents(
    [chunk({ content: 'x', ...(deltas && { tool_calls: deltas }) }), chunk({}, finish, more), '[DONE]'],
    fields,
  );
  expect(readMessageEvents(wire).end?.['delta']).toMatchObject(expected);
});

test('a stop sequence is reported only if it was requested', () => {
  expect(rebuilt(answer({ content: 'x' }, 'stop', { stop_reason: 'a' }))).toMatchObject({
    stop_reason: 'end_turn',
    stop_sequence: null,
  });
});

test.each([
  [{ prompt_tokens: 9, completion_tokens: 4 }, 9, 0, 4, null],
  [{ prompt_tokens: 9, completion_tokens: 4, prompt_tokens_details: { cached_tokens: 8 } }, 1, 8, 4, null],
  [{ prompt_tokens: 9, completion_tokens: 4, prompt_tokens_details: { cached_tokens: 10 } }, 0, 9, 4, null],
  [
    { prompt_tokens: 9, completion_tokens: 4, completion_tokens_details: { reasoning_tokens: 3 } },
    9,
    0,
    4,
    { thinking_tokens: 3 },
  ],
])('usage %j is shown in parts that add up, and billed whole', (usage, input, cached, output, details) => {
  const given = { ...answer({ content: 'a' }), usage };
  const expected = {
    input_tokens: input,
    cache_read_input_tokens: cached,
    cache_creation_input_tokens: 0,
    output_tokens: output,
    output_tokens_details: details,
  };
  const whole = rebuiltBy(messagesSurface, given);
  expect(whole.body).toMatchObject({ usage: expected });
  expect(whole.usage).toMatchObject({ promptTokens: 9, completionTokens: 4 });
  const { wire, stream } = runEvents([chunk({ content: 'a' }, 'stop'), { choices: [], usage }, '[DONE]']);
  expect(readMessageEvents(wire).end).toMatchObject({ usage: expected });
  expect(stream.usage).toEqual(whole.usage);
});

test('thoughts that are not displayed keep their block but lose their text', () => {
  const fields = { thinking: { type: 'adaptive', display: 'omitted' } };
  const body = rebuilt(answer({ reasoning: 'SECRET', content: 'so' }), fields);
  const { wire } = runEvents(
    [chunk({ reasoning: 'SECRET' }), chunk({ content: 'so' }, 'stop'), '[DONE]'],
    fields,
  );
  expect(JSON.stringify(body) + wire).not.toContain('SECRET');
  const expected = [
    { type: 'thinking', thinking: '', signature: '' },
    { type: 'text', text: 'so' },
  ];
  expect(body).toMatchObject({ content: expected });
  expect(readMessageEvents(wire).content).toEqual(expected);
});

test('an empty answer has no block', () => {
  expect(rebuilt(answer({ content: '' })).content).toEqual([]);
  const empty = runEvents([chunk({ role: 'assistant', content: '' }), chunk({}, 'stop'), '[DONE]']);
  expect(readMessageEvents(empty.wire)).toMatchObject({ content: [], isComplete: true });
});

const toolUses = (wire: string) =>
  readMessageEvents(wire)
    .content.filter(({ type }) => type === 'tool_use')
    .map(({ name, input }) => [name, input]);

test.each<[string, object[], [string, string][]]>([
  [
    'one after the other',
    [called(0, 'f', '{"a":'), grown(0, '1}'), called(1, 'g', '{}')],
    [
      ['f', '{"a":1}'],
      ['g', '{}'],
    ],
  ],
  [
    'interleaved',
    [called(0, 'f', '{"a":'), called(1, 'g', '{"b":'), grown(0, '"}'), grown(1, '2}'), grown(0, '"}')],
    [
      ['f', '{"a":"}"}'],
      ['g', '{"b":2}'],
    ],
  ],
  [
    'three, of which the second has no input',
    [called(0, 'f', '{}'), called(1, 'g', ''), called(2, 'h', '{"c":'), grown(2, '3}')],
    [
      ['f', '{}'],
      ['g', '{}'],
      ['h', '{"c":3}'],
    ],
  ],
  ['surrounding white space', [called(0, 'f', ' '), grown(0, '\n{'), grown(0, '} \n')], [['f', '{} \n']]],
])('only one block is open at a time, whatever the order of the calls: %s', (_, events, expected) => {
  const { wire, stream } = runEvents([...events, chunk({}, 'tool_calls'), usageChunk, '[DONE]'], { tools });
  expect(stream.state).toBe('completed');
  expect(toolUses(wire)).toEqual(expected);
  expect(readMessageEvents(wire).end).toMatchObject({ delta: { stop_reason: 'tool_use' } });
});

test('the open call’s arguments pass at once', () => {
  const stream = streamOf(messagesSurface, { fields: { tools } });
  stream.push(JSON.stringify(called(0, 'f', '{"a":"')));
  expect(stream.push(JSON.stringify(grown(0, 'long'))).join('')).toContain('"partial_json":"long"');
});

test('text after a call waits for the call’s end, and blank text is dropped', () => {
  const late = runEvents(
    [
      chunk({ content: 'a' }),
      called(0, 'f', '{'),
      chunk({ content: 'b' }),
      chunk({ content: 'c' }),
      grown(0, '}'),
      chunk({}, 'stop'),
      '[DONE]',
    ],
    { tools },
  );
  expect(readMessageEvents(late.wire).content).toMatchObject([
    { text: 'a' },
    { name: 'f', input: '{}' },
    { text: 'bc' },
  ]);
  const blank = runEvents([called(0, 'f', '{}'), chunk({ content: '\n\n' }), chunk({}, 'stop'), '[DONE]']);
  expect(readMessageEvents(blank.wire).content).toHaveLength(1);
});

const nested = `{"a":${'['.repeat(100)}${']'.repeat(100)}}`;

test.each(['false', 'null', '1', '"a"', '[]', '[{}]', 'x', '{"a":1}{', '{"a":1', '{a:1}', nested])(
  'a tool input that is not an object fails the request: %s',
  (input) => {
    const message = { tool_calls: [{ id: 'a', function: { name: 'f', arguments: input } }] };
    const kind = input === nested ? 'too_large' : 'unusable';
    expect(failureOf(() => rebuilt(answer(message, 'tool_calls'), { tools })).kind).toBe(kind);
    const { stream, wire } = runEvents(
      [chunk({ content: 'a' }), called(0, 'f', input), chunk({}, 'tool_calls'), usageChunk, '[DONE]'],
      { tools },
    );
    expect(stream.failure?.kind).toBe(kind);
    expect(wire).not.toMatch(/message_delta|message_stop/);
  },
);

test.each(['vllm/232-tools-required-complete-stream', 'llamacpp/206-tools-required-qwen-template-stream'])(
  'a stream that lost frames in the middle of a call fails: %s',
  (name) => {
    const { stream, wire } = run([captured(name)], { tools });
    expect(stream.failure?.kind).toBe('unusable');
    expect(toolUses(wire)).toMatchObject([['set_unit', expect.stringMatching(/^\{/)]]);
    expect(wire).not.toContain('message_stop');
  },
);

test('input that fails with the first event leaves the status still to be chosen', () => {
  const stream = streamOf(messagesSurface, { fields: { tools } });
  expect(stream.push(JSON.stringify(called(0, 'f', 'false')))).toEqual([]);
  expect(stream.state).toBe('failed');
});

test.each([
  ['{"a":"b","c":"d', { a: 'b' }],
  ['{"a":"b"', { a: 'b' }],
  ['{"a":"b","c"', { a: 'b' }],
  ['{"a":"b","c":', { a: 'b' }],
  ['{"a":1,"b":[1,2,{"c":"d"', { a: 1, b: [1, 2, { c: 'd' }] }],
  ['{"a":12', {}],
  ['{"a":tru', {}],
  ['{"a":"x,{y', {}],
  ['{"a":"x\\"', {}],
  ['{"a":"b","c":"\\"', { a: 'b' }],
  ['{', {}],
  ['{"a":{"b":{}},"c', { a: { b: {} } }],
  ['{"a":["b', { a: [] }],
  ['{a:1,', {}],
])('tool input cut by the token limit keeps its complete members: %s', (input, expected) => {
  const message = { tool_calls: [{ id: 'a', function: { name: 'f', arguments: input } }] };
  const body = rebuilt(answer(message, 'length'), { tools });
  expect(body).toMatchObject({ stop_reason: 'max_tokens' });
  expect(body.content).toMatchObject([{ name: 'f', input: expected }]);
  const { stream, wire } = runEvents([called(0, 'f', input), chunk({}, 'length'), '[DONE]'], { tools });
  expect(stream.state).toBe('completed');
  expect(toolUses(wire)).toEqual([['f', input]]);
});

test('generated id suffixes have a form that the API allows, and never repeat', () => {
  const ids = Array.from({ length: 100 }, mintUnique);
  expect(new Set(ids).size).toBe(100);
  for (const id of ids) expect(id).toMatch(/^[a-f0-9]{32}$/);
});

// For the same prompt, compares the answers of the engines' own messages endpoints with what the gateway makes of their chat
// completions.

test.each(['vllm', 'sglang', 'llamacpp', 'ollama'])(
  'the events match the engine’s own events for the same prompt: %s',
  (engine) => {
    const ours = readMessageEvents(run([captured(`${engine}/17-chat-stream-usage`)]).wire);
    const theirs = readMessageEvents(captured(`${engine}/80-messages-stream`).toString());
    expect(ours.outline).toEqual(theirs.outline);
    expect(ours.content.map(({ type }) => type)).toEqual(theirs.content.map(({ type }) => type));
    const [mine, their] = [ours.end, theirs.end] as { delta: Fields; usage: Fields }[];
    expect(mine?.delta['stop_reason']).toBe(their?.delta['stop_reason']);
    expect(Object.keys(ours.start)).toEqual(expect.arrayContaining(Object.keys(theirs.start)));
    expect(Object.keys(mine?.usage ?? {})).toEqual(expect.arrayContaining(Object.keys(their?.usage ?? {})));
  },
);

test.each(['vllm', 'sglang', 'llamacpp', 'ollama'])(
  'the message has the members of the engine’s own message for the same prompt: %s',
  (engine) => {
    const ours = rebuilt(capturedJson(`${engine}/15-chat`));
    const theirs = capturedJson(`${engine}/79-messages`) as Fields & { content: Fields[]; usage: Fields };
    expect(Object.keys(ours)).toEqual(expect.arrayContaining(Object.keys(theirs)));
    expect(ours.content.map(({ type }) => type)).toEqual(theirs.content.map(({ type }) => type));
    expect(ours['stop_reason']).toBe(theirs['stop_reason']);
    const prompt = (usage: Fields) =>
      Number(usage['input_tokens']) + Number(usage['cache_read_input_tokens'] ?? 0);
    expect(prompt(ours.usage)).toBe(prompt(theirs.usage));
  },
);

test.each([
  ['vllm', 'stop_sequence', 'a'],
  ['sglang', 'stop_sequence', 'a'],
  ['llamacpp', 'end_turn', null],
  ['ollama', 'end_turn', null],
])(
  'stopping at a stop sequence is reported if the engine names the sequence: %s',
  (engine, reason, sequence) => {
    const ours = rebuilt(capturedJson(`${engine}/21-stop-string`), { stop_sequences: ['a', 'e'] });
    expect(ours).toMatchObject({ stop_reason: reason, stop_sequence: sequence });
    if (engine !== 'vllm') return;
    const theirs = capturedJson('vllm/83-messages-stop-seq');
    expect(ours).toMatchObject({ ...theirs, id: ours['id'], model: 'asked' });
  },
);

test('a cut call streams like the engine’s own', () => {
  const theirs = readMessageEvents(captured('vllm/213-messages-tool-any-strict-stream').toString());
  const { wire } = runEvents([called(0, 'set_unit', '{'), chunk({}, 'length'), '[DONE]'], { tools });
  const ours = readMessageEvents(wire);
  expect(ours.outline).toEqual(theirs.outline);
  expect(ours.content).toMatchObject([{ type: 'tool_use', name: 'set_unit', input: '{' }]);
});

test('the event reader is strict: no event may come twice, and no two may change places', () => {
  const { wire } = runEvents(
    [
      chunk({ reasoning: 'a' }),
      chunk({ content: 'b' }),
      called(0, 'f', '{}'),
      called(1, 'g', '{}'),
      chunk({}, 'tool_calls'),
      '[DONE]',
    ],
    { tools },
  );
  expect(readMessageEvents(wire).isComplete).toBe(true);
  const frames = wire.split('\n\n').filter((frame) => frame !== '');
  const isDelta = (frame = '') => frame.startsWith('event: content_block_delta');
  for (const [at, frame] of frames.entries()) {
    const twice = frames.toSpliced(at, 0, frame).join('\n\n');
    if (!isDelta(frame)) expect(() => readMessageEvents(twice), frame).toThrow();
    const next = frames[at + 1];
    if (next === undefined || (isDelta(frame) && isDelta(next))) continue;
    expect(() => readMessageEvents(frames.toSpliced(at, 2, next, frame).join('\n\n')), frame).toThrow();
  }
});
