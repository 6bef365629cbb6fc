/**
 * Tests streams in unusual formats that engines and proxies send. A part without content must be ignored, a part with only
 * one possible meaning must be repaired, and an ambiguous part must fail. An answer that lost a part must never count as
 * complete.
 */
import { describe, expect, test } from 'vitest';
import {
  answerSurfaces,
  bytesOf,
  chunk,
  type NodeEvent,
  ranBy,
  rebuiltBy,
} from '../../test/support/surface-answers.ts';

const [a, b, stop] = [chunk({ content: 'a' }), chunk({ content: 'b' }), chunk({}, 'stop')];
const usage = { prompt_tokens: 9, completion_tokens: 4 };
const done = '[DONE]';
const tools = { tools: true };

const raw = (text: string): Buffer => Buffer.from(text);
const choice = (more: object) => ({ model: 'm', choices: [{ index: 0, finish_reason: null, ...more }] });
/** Returns part of a tool call: its arguments, and further members if given. */
const part = (input: string, more: object = {}, name?: string) => ({
  ...more,
  function: { ...(name !== undefined && { name }), arguments: input },
});
const calls = (...parts: readonly unknown[]) => chunk({ tool_calls: parts });

/** Events that must leave the text `ab` unchanged, whether they come between `a` and `b` or after both. */
const idle: Readonly<Record<string, NodeEvent | Buffer>> = {
  'a chunk without choices': { id: 'x', object: 'chat.completion.chunk' },
  'choices that are null': { choices: null },
  'an empty list of choices': { choices: [] },
  'a choice that is null': { choices: [null] },
  'an empty object': {},
  null: 'null',
  'an empty text': '',
  'data without a value': raw('data\n\n'),
  'blank data': raw('data:   \n\n'),
  'a comment': raw(': here\n\n'),
  'an event with a name of its own': raw('event: metrics\ndata: 12 tokens/s\n\n'),
  'an event with a name and JSON of its own': raw('event: ping\ndata: {"type":"ping"}\n\n'),
  'meaningless fields': raw('id: 7\nretry: 10\nx: y\n\n'),
  'an empty error': { error: '' },
  'an error that is false': { error: false, choices: [] },
  'an empty delta': choice({ delta: {} }),
  'a delta that is null': choice({ delta: null }),
  'no delta': choice({}),
  'a role that is null': choice({ delta: { role: null, content: null, refusal: null, tool_calls: null } }),
  'empty lists': choice({ delta: { content: [], tool_calls: [] }, logprobs: { content: [] } }),
  'empty texts': choice({ delta: { role: '', content: '', reasoning_content: '', refusal: '' } }),
  'an empty finish reason': choice({ delta: {}, finish_reason: '' }),
  'a finish reason that is the text "null"': choice({ delta: {}, finish_reason: 'null' }),
  'no finish reason': { choices: [{ index: 0, delta: { content: '' } }] },
  'no index': { choices: [{ delta: {}, finish_reason: null }] },
  'no model': { ...chunk({}), model: '' },
  'an empty tool call': calls(null, {}, { index: 0 }, part('', { index: 0, id: null, type: null })),
  'unknown members': { ...chunk({ x: 1 }), timings: {}, system_fingerprint: null, y: [{}] },
};

/** Streams with one or two tool calls, of `f` and `g`. */
const f = ['f', '{"a":1}'] as const;
const g = ['g', '{}'] as const;
const repairs: Readonly<Record<string, readonly [NodeEvent[], readonly (readonly string[])[]]>> = {
  'one call without an index': [[calls(part('{"a":1}', { id: 'c' }, 'f'))], [f]],
  'one call with an index that is null': [[calls(part('{"a":1}', { id: 'c', index: null }, 'f'))], [f]],
  'one call without index or id': [[calls(part('{"a":1}', {}, 'f'))], [f]],
  'one call in parts without an index': [[calls(part('{"a"', { id: 'c' }, 'f')), calls(part(':1}'))], [f]],
  'two calls in parts without an index': [
    [
      ...[calls(part('{"a"', { id: 'c' }, 'f')), calls(part(':1}'))],
      ...[calls(part('', { id: 'd' }, 'g')), calls(part('{}'))],
    ],
    [f, g],
  ],
  'parts that name their call by its id': [
    [
      calls(part('{"a"', { id: 'c' }, 'f'), part('{', { id: 'd' }, 'g')),
      calls(part(':1}', { id: 'c' }), part('}', { id: 'd' })),
    ],
    [f, g],
  ],
  'two calls without index or id in one list': [[calls(part('{"a":1}', {}, 'f'), part('', {}, 'g'))], [f, g]],
  'two calls without index or id': [
    [calls(part('{"a":1}', {}, 'f')), calls(part('', {}, 'g'))],
    [f, g],
  ],
  'a call that is not in a list': [[chunk({ tool_calls: part('{"a":1}', { id: 'c' }, 'f') })], [f]],
  'a name that is repeated': [
    [calls(part('{"a"', { index: 0, id: 'c' }, 'f')), calls(part(':1}', { index: 0 }, 'f'))],
    [f],
  ],
  'a name after the id': [
    [calls(part('', { index: 0, id: 'c' })), calls(part('{"a":1}', { index: 0 }, 'f'))],
    [f],
  ],
};

const ambiguous: Readonly<Record<string, NodeEvent[]>> = {
  'a name in parts': [calls(part('', { index: 0, id: 'c' }, 'f')), calls(part('{}', { index: 0 }, 'oo'))],
  'a name that grows': [calls(part('', { index: 0, id: 'c' }, 'f')), calls(part('{}', { index: 0 }, 'foo'))],
  'a part without index or id among several numbered calls': [
    calls(part('{', { index: 0, id: 'c' }, 'f'), part('{', { index: 1, id: 'd' }, 'g')),
    calls(part('}')),
  ],
  'a call that is never named': [calls(part('', { index: 0, id: 'c' }))],
  'a call without a name': [calls(part('{}', { index: 0 }))],
  'an index that is a text': [calls(part('{}', { index: '0' }, 'f'))],
  'a call that is a text': [calls('f')],
  'text that is a number': [chunk({ content: 5 })],
  'choices that are not a list': [{ choices: { index: 0, delta: { content: 'b' } } }],
  'an event that is a list': ['5'],
  'an event that is not JSON': ['{"choices":['],
};

describe.each(answerSurfaces)('$name', (surface) => {
  const run = (events: readonly (NodeEvent | Buffer)[], wanted = tools) =>
    ranBy(
      surface,
      events.map((event) => (Buffer.isBuffer(event) ? event : bytesOf([event]))),
      wanted,
    );
  const plain = run([a, b, stop, { choices: [], usage }, done]).read;

  test.each(Object.entries(idle))('an answer is not changed by %s, at any position', (_, event) => {
    for (const events of [
      [event, a, b, stop, { choices: [], usage }, done],
      [a, event, b, stop, { choices: [], usage }, done],
      [a, b, stop, event, { choices: [], usage }, done],
      [a, b, stop, { choices: [], usage }, event, done],
      [a, b, stop, { choices: [], usage }, done, event],
    ]) {
      const { read, stream } = run(events);
      expect([stream.failure?.message, stream.oddForm, read]).toEqual([undefined, undefined, plain]);
    }
  });

  test.each([{ usage }, { choices: null, usage }])('usage in a chunk such as %j counts', (event) => {
    expect(run([a, b, stop, event, done]).read).toEqual(plain);
  });

  test.each(['[DONE]', '[DONE]\n', '[DONE]\r\n'])('the terminator needs no blank line: %j', (end) => {
    expect(run([a, b, stop, { choices: [], usage }, raw(`data: ${end}`)]).read).toEqual(plain);
    const { stream } = run([a, b, stop, raw('data: {"choices":['), raw('')]);
    expect(stream.failure?.message).toMatch(/\[DONE\] is missing/);
  });

  test('a whole message as a stream’s only event is the answer', () => {
    const event = { choices: [{ message: { role: 'assistant', content: 'ab' }, finish_reason: 'stop' }] };
    expect(run([{ ...event, usage }, done]).read).toEqual(plain);
  });

  test('an answer that never names its model is accepted', () => {
    const nameless = [chunk({ role: 'assistant' }), a, b, stop].map((event) => ({ ...event, model: '' }));
    expect(run([...nameless, { choices: [], usage }, done]).read).toEqual(plain);
  });

  test.each(Object.entries(repairs))('tool calls are read: %s', (_, [events, expected]) => {
    const { stream, read } = run([...events, chunk({}, 'tool_calls'), done]);
    expect([stream.failure?.message, read.calls, read.isComplete]).toEqual([undefined, expected, true]);
    expect(new Set(read.ids).size).toBe(expected.length);
  });

  test.each(Object.entries(ambiguous))('an ambiguous answer is malformed: %s', (_, events) => {
    const { stream, read } = run([a, ...events, chunk({}, 'tool_calls'), done]);
    expect([stream.failure?.kind, read.isComplete]).toEqual(['malformed', false]);
  });

  test.each(['repetition', 'eos', 'end_turn', 'STOP', 'of its own'])(
    'the unusual finish reason %s ends the answer and is reported, streamed or not',
    (reason) => {
      const { stream, read } = run([a, chunk({ content: 'b' }, reason), { choices: [], usage }, done]);
      expect(read).toEqual(plain);
      expect(stream.oddForm).toMatch(/^an unknown finish reason/);
      const message = { role: 'assistant', content: 'ab' };
      const whole = rebuiltBy(surface, { choices: [{ index: 0, message, finish_reason: reason }], usage });
      expect(surface.readWhole(whole.body)).toMatchObject({ text: 'ab', finish: plain.finish });
      expect(whole.oddForm).toBe(stream.oddForm);
    },
  );

  test.each(['max_tokens', 'model_length'])(
    'the finish reason %s means that the answer was cut off',
    (reason) => {
      const cut = run([a, chunk({}, 'length'), done]).read.finish;
      expect(run([a, chunk({}, reason), done]).read).toMatchObject({ finish: cut, isComplete: true });
    },
  );

  test.each(['abort', 'error', 'cancelled', 'timeout', 'insufficient_system_resource', 7])(
    'the finish reason %s is a failure',
    (reason) => {
      const { stream, read } = run([a, choice({ delta: {}, finish_reason: reason }), done]);
      expect([stream.failure?.kind, read.isComplete]).toEqual(['aborted', false]);
    },
  );

  const whole = (message: object, finish = 'stop') =>
    surface.readWhole(
      rebuiltBy(surface, { choices: [{ message, finish_reason: finish }], usage }, tools).body,
    );

  test('a text in parts is read as one text, streamed or not', () => {
    const parts = ['a', 'b'].map((text) => ({ type: 'text', text }));
    expect(run([chunk({ content: parts }), stop, { choices: [], usage }, done]).read).toEqual(plain);
    expect(whole({ content: parts })).toMatchObject({ text: 'ab', finish: plain.finish });
  });

  test('call arguments sent as an object become its JSON, unless that may differ from what the model wrote', () => {
    const call = (input: unknown) => whole({ tool_calls: [{ function: { name: 'f', arguments: input } }] });
    expect(call({ a: 1, b: [null, 'x'] }).calls).toEqual([['f', '{"a":1,"b":[null,"x"]}']]);
    expect(call({}).calls).toEqual([['f', '{}']]);
    expect(() => call(JSON.parse('{"a":[12345678901234567890]}'))).toThrow('a number that is too large');
  });

  test('a log probability of null becomes that of an impossible token', () => {
    const token = (logprob: number | null) => ({ token: 'a', logprob, bytes: [97], top_logprobs: [] });
    const logprobs = { content: [{ ...token(-0.1), top_logprobs: [token(null)] }] };
    const wanted = surface.name === 'chat' ? { fields: { logprobs: true, top_logprobs: 1 } } : {};
    const { wire, read } = run([chunk({ content: 'a' }, null, { logprobs }), b, stop, done], {
      ...tools,
      ...wanted,
    });
    expect(read).toMatchObject({ text: 'ab', isComplete: true });
    if (surface.name === 'chat') expect(wire).toContain('"logprob":-9999');
    const message = { role: 'assistant', content: 'ab' };
    const given = { choices: [{ message, logprobs, finish_reason: 'stop' }], usage };
    expect(surface.readWhole(rebuiltBy(surface, given, wanted).body).text).toBe('ab');
  });
});

test('with several choices, each must have an index', () => {
  const [chat] = answerSurfaces;
  if (chat === undefined) throw new Error('there is no surface');
  const events = [{ choices: [{ delta: { content: 'a' }, finish_reason: 'stop' }] }, done];
  const { stream } = ranBy(chat, [bytesOf(events)], { fields: { n: 2 } });
  expect(stream.failure?.kind).toBe('malformed');
});
