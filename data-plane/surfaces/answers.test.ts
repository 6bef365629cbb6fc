/**
 * Tests properties of the answers of every API, streamed and whole, with captures of real engines and with engines that
 * misbehave.
 */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  answerSurfaces,
  bytesOf,
  captured,
  capturedJson,
  chunk,
  type NodeEvent,
  ranBy,
  rebuiltBy,
  type Setup,
  streamOf,
} from '../../test/support/surface-answers.ts';
import { NodeFailure } from './common/node-failure.ts';

const answer = (message: object, finish: unknown = 'stop', more: object = {}) => ({
  choices: [{ index: 0, message, finish_reason: finish }],
  usage: { prompt_tokens: 9, completion_tokens: 4 },
  ...more,
});
const callOf = (name: string, input: string, id: string | null = name) => ({
  id,
  type: 'function',
  function: { name, arguments: input },
});
const called = (index: number, name: string, input: string) =>
  chunk({ tool_calls: [{ index, ...callOf(name, input) }] });
const grown = (index: number, input: string) =>
  chunk({ tool_calls: [{ index, function: { arguments: input } }] });
const usageChunk = { choices: [], usage: { prompt_tokens: 9, completion_tokens: 4 } };
const withTools: Setup = { tools: true };

/** Words in a node's answer that would reveal where a request ran. */
const revealing =
  /fingerprint|timings|matched|token_ids|tiny|vllm|ollama|call_00d9|fq5HL2|chatcmpl-tool|created_at(?!":1800000000)/;

const streams = {
  'vllm/17-chat-stream-usage': [' w atheouzu', 23, 6],
  'sglang/17-chat-stream-usage': [' w atheouzu', 23, 6],
  'llamacpp/17-chat-stream-usage': ['  the  the  the', 23, 6],
  'ollama/17-chat-stream-usage': [' the  the  the ', 24, 6],
} as const;

const endedEarly = [
  ['vllm/71-json-schema-bad-stream', 'error', false],
  ['sglang/71-json-schema-bad-stream', 'error', false],
  ['vllm/97-mid-stream-kill9-enginecore', 'error', true],
  ['vllm/97-mid-stream-term-apiserver', 'cut', true],
  ['sglang/99-mid-stream-kill9-scheduler', 'cut', true],
  ['llamacpp/98-mid-stream-kill9', 'cut', true],
  ['llamacpp/98-mid-stream-term', 'cut', true],
  ['ollama/103-mid-stream-kill9-runner-only', 'cut', true],
  ['ollama/103-mid-stream-term-server', 'cut', true],
] as const;

const failing: readonly [name: string, answer: unknown, kind: string][] = [
  ['an error', { error: { message: 'SECRET' } }, 'error'],
  ['an error given as a string', { error: 'SECRET' }, 'error'],
  ['a flat error', { object: 'error', message: 'SECRET' }, 'error'],
  ['nothing', undefined, 'malformed'],
  ['a text', 'Internal Server Error', 'malformed'],
  ['no choices', { id: 'x' }, 'malformed'],
  ['too few choices', { choices: [] }, 'malformed'],
  ['too many choices', { choices: [1, 2] }, 'malformed'],
  ['a choice without a message', { choices: [{ index: 0, finish_reason: 'stop' }] }, 'malformed'],
  [
    'a choice that was not requested',
    { choices: [{ index: 1, message: {}, finish_reason: 'stop' }] },
    'malformed',
  ],
  ['a choice that was given up', answer({ content: 'a' }, 'abort'), 'aborted'],
  ['a choice without an end', answer({ content: 'a' }, null), 'malformed'],
  ['content that is not a string', answer({ content: [{ text: 'a' }] }), 'malformed'],
  ['a call without a name', answer({ tool_calls: [{ id: 'a', function: {} }] }), 'malformed'],
  [
    'arguments that are not a string',
    answer({ tool_calls: [{ function: { name: 'f', arguments: [1] } }] }),
    'malformed',
  ],
  [
    'more calls than an answer may contain',
    answer({ tool_calls: Array.from({ length: 129 }, () => callOf('f', '{}')) }),
    'too_large',
  ],
];

const failingChunks: readonly [name: string, data: NodeEvent, kind: string][] = [
  ['not JSON', '{"choices":[', 'malformed'],
  ['not an object', '5', 'malformed'],
  ['an unknown choice', chunk({ content: 'b' }, null, { index: 1 }), 'malformed'],
  ['content that is not a string', chunk({ content: [{ type: 'image', text: 'b' }] }), 'malformed'],
  [
    'a tool call without a name',
    chunk({ tool_calls: [{ index: 0, id: 'a', function: { arguments: '{' } }] }),
    'malformed',
  ],
  [
    'more tool calls than an answer may contain',
    chunk({
      tool_calls: Array.from({ length: 129 }, (_, index) => ({ index, ...callOf('f', '{}', `c${index}`) })),
    }),
    'too_large',
  ],
  ['more values than may be read', { ...chunk({ content: 'b' }), extra: Array(60_000).fill(1) }, 'too_large'],
  ['an error', { error: { message: 'SECRET', code: 500 } }, 'error'],
  ['an error given as a string', { error: 'SECRET' }, 'error'],
  ['a flat error', { object: 'error', message: 'SECRET' }, 'error'],
  ['an error next to choices', { error: { message: 'SECRET' }, choices: [] }, 'error'],
  ['an unknown finish reason', chunk({}, 'abort'), 'aborted'],
];

const oneCall = { tool_calls: [{ index: 0, ...callOf('f', '{}') }] };
const text = { content: 'a' };
/** An engine's finish reason and message, and the resulting stop reason in each API. */
const ends: readonly (readonly [
  finish: string,
  message: object,
  chat: string,
  messages: string,
  responses: string,
])[] = [
  ['stop', text, 'stop', 'end_turn', 'completed'],
  ['length', text, 'length', 'max_tokens', 'max_output_tokens'],
  ['content_filter', text, 'content_filter', 'refusal', 'content_filter'],
  ['stop', oneCall, 'tool_calls', 'tool_use', 'completed'],
  ['tool_calls', oneCall, 'tool_calls', 'tool_use', 'completed'],
  ['function_call', oneCall, 'tool_calls', 'tool_use', 'completed'],
  ['length', oneCall, 'length', 'max_tokens', 'max_output_tokens'],
  ['tool_calls', text, 'stop', 'end_turn', 'completed'],
  ['tool_calls', { ...text, tool_calls: [] }, 'stop', 'end_turn', 'completed'],
];

describe.each(answerSurfaces)('$name', (surface) => {
  const run = (pieces: readonly Uint8Array[], wanted?: Setup) => ranBy(surface, pieces, wanted);
  const runEvents = (events: readonly NodeEvent[], wanted?: Setup) => run([bytesOf(events)], wanted);
  const rebuilt = (given: unknown, wanted?: Setup) =>
    surface.readWhole(rebuiltBy(surface, given, wanted).body);

  test.each(Object.entries(streams))('a whole stream completes: %s', (name, [text, prompt, completion]) => {
    const { stream, read } = run([captured(name)]);
    expect(stream.state).toBe('completed');
    expect(stream.usage).toMatchObject({ promptTokens: prompt, completionTokens: completion });
    expect(read).toMatchObject({
      text,
      isComplete: true,
      promptTokens: prompt,
      completionTokens: completion,
    });
  });

  test.each([
    ...Object.keys(streams),
    'vllm/211-tools-truncated-stream',
    'sglang/232-tools-required-complete-stream',
    'sglang/99-mid-stream-term-server',
  ])('Routing, rules: a stream does not reveal where it ran: %s', (name) => {
    const { stream, wire } = run([captured(name)], withTools);
    expect(stream.state).toBe('completed');
    expect(wire).not.toMatch(revealing);
    expect(wire).toContain('"model":"asked"');
  });

  test.each(['vllm', 'sglang', 'llamacpp', 'ollama'])(
    'Routing, rules: a non-streamed answer does not reveal where it ran: %s',
    (engine) => {
      const body = JSON.stringify(rebuiltBy(surface, capturedJson(`${engine}/15-chat`)).body);
      expect(body).not.toMatch(revealing);
      expect(body).toContain('"model":"asked"');
    },
  );

  test.each(endedEarly)(
    'Events: a stream that ends early fails and closes without a terminal frame: %s, %s',
    (name, kind, began) => {
      const { stream, wire, read } = run([captured(name)]);
      expect(stream.state).toBe('failed');
      expect(stream.failure?.kind).toBe(kind);
      expect(wire !== '').toBe(began);
      expect(read.isComplete).toBe(false);
      // The stream that was cut off must not contain an error, a stop reason or usage.
      expect(wire).not.toMatch(/error(?!":null)|"(finish|stop)_reason":"|(?<!"max_output)_tokens":[1-9]/);
    },
  );

  test.each(failing)('a body that is not a completion is a failure of the node: %s', (_, given, kind) => {
    try {
      rebuiltBy(surface, given, withTools);
    } catch (error) {
      expect(error).toBeInstanceOf(NodeFailure);
      expect((error as NodeFailure).kind).toBe(kind);
      expect(`${(error as Error).stack} ${JSON.stringify(error)}`).not.toContain('SECRET');
      return;
    }
    expect.unreachable('was taken for a completion');
  });

  test.each(failingChunks)(
    'a chunk that is not part of a completion is a failure of the node, even before [DONE]: %s',
    (_, data, kind) => {
      const { stream, wire, read } = runEvents(
        [chunk({ content: 'a' }), data, chunk({}, 'stop'), '[DONE]'],
        withTools,
      );
      expect(stream.failure?.kind).toBe(kind);
      expect(read).toMatchObject({ text: 'a', calls: [], isComplete: false });
      expect(wire + JSON.stringify(stream.failure) + String(stream.failure?.stack)).not.toContain('SECRET');
    },
  );

  test('an error may come as a field or as an event of its own, even after the last finish', () => {
    for (const line of ['error: {"code":500}\n\n', 'event: error\ndata: {"choices":[]}\n\n']) {
      const begun = bytesOf([chunk({ content: 'a' }, 'stop')]);
      const { stream } = run([begun, Buffer.from(line), bytesOf(['[DONE]'])]);
      expect(stream.failure?.kind, line).toBe('error');
    }
  });

  test('[DONE] before the choice has finished does not complete the stream', () => {
    expect(runEvents([chunk({ content: 'a' }), '[DONE]']).stream.failure?.kind).toBe('malformed');
    expect(runEvents(['[DONE]']).stream.failure?.kind).toBe('malformed');
  });

  test('a choice that continues after its end fails the stream, but a repeated end does not', () => {
    const ended = chunk({ content: 'a' }, 'stop');
    expect(runEvents([ended, chunk({ content: 'b' }), '[DONE]']).stream.state).toBe('failed');
    expect(runEvents([ended, chunk({}, 'stop'), '[DONE]']).stream.state).toBe('completed');
  });

  test('input after the end is ignored, and a failure after it changes nothing', () => {
    const stream = streamOf(surface);
    for (const event of [JSON.stringify(chunk({ content: 'a' }, 'stop')), '[DONE]']) stream.push(event);
    expect(stream.push('{"error":{}}')).toEqual([]);
    expect(stream.push('[DONE]')).toEqual([]);
    stream.fail(new NodeFailure('cut', 'late'));
    stream.end();
    expect(stream.state).toBe('completed');
  });

  test('the stream waits until the first good event, so that a refusal is still possible', () => {
    const stream = streamOf(surface);
    expect(stream.state).toBe('waiting');
    stream.push('{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":0}}');
    expect(stream.state).toBe('waiting');
    stream.push(JSON.stringify(chunk({ role: 'assistant' })));
    expect(stream.state).toBe('streaming');
  });

  test('an empty chunk without a model does not begin an answer, because its node may have failed', () => {
    const stream = streamOf(surface);
    const empty = { ...chunk({ role: 'assistant', content: '' }), model: '' };
    expect(stream.push(JSON.stringify(empty))).toEqual([]);
    expect(stream.state).toBe('waiting');
    stream.end();
    expect(stream.failure?.kind).toBe('cut');
  });

  test('usage on the finish chunk counts, the last report wins, and missing usage is estimated', () => {
    const withUsage = (completion_tokens: number) => ({
      ...chunk({ content: 'abcd' }, completion_tokens === 3 ? 'stop' : null),
      usage: { prompt_tokens: 9, completion_tokens },
    });
    const reported = runEvents([withUsage(1), withUsage(3), { choices: [], usage: null }, '[DONE]']);
    expect(reported.stream.usage).toEqual({ promptTokens: 9, completionTokens: 3 });
    const unreported = runEvents([chunk({ content: 'abcdefgh' }, 'stop'), '[DONE]']);
    const estimate = { promptTokens: 1, completionTokens: 2 };
    expect(unreported.stream.usage).toEqual({ ...estimate, estimated: true });
    expect(unreported.read).toMatchObject(estimate);
    const { usage } = rebuiltBy(surface, { choices: answer({ content: 'abcdefgh' }).choices });
    expect(usage).toEqual({ ...estimate, estimated: true });
  });

  test.each(['reasoning', 'reasoning_content'])(
    'thoughts have the same field name whatever the engine calls them: %s',
    (name) => {
      const expected = { thoughts: 'hm', text: 'so' };
      expect(rebuilt(answer({ [name]: 'hm', content: 'so' }))).toMatchObject(expected);
      const pieces = [
        chunk({ [name]: 'h' }),
        chunk({ [name]: 'm' }),
        chunk({ content: 'so' }, 'stop'),
        '[DONE]',
      ];
      expect(runEvents(pieces).read).toMatchObject(expected);
    },
  );

  test('a model’s refusal reaches the client', () => {
    expect(rebuilt(answer({ content: null, refusal: 'no' })).text).toBe('no');
    expect(runEvents([chunk({ refusal: 'no' }, 'stop'), '[DONE]']).read.text).toBe('no');
  });

  test('parallel calls pass, but are cut to the first if the client allows only one', () => {
    const events = [called(0, 'f', '{"a":'), called(1, 'g', '{'), grown(0, '1}'), grown(1, '}')];
    const ended = [...events, chunk({}, 'tool_calls'), '[DONE]'];
    const message = { content: null, tool_calls: [callOf('f', '{"a":1}'), callOf('g', '{}')] };
    const both = [
      ['f', '{"a":1}'],
      ['g', '{}'],
    ];
    expect(runEvents(ended, withTools).read.calls).toEqual(both);
    expect(rebuilt(answer(message, 'tool_calls'), withTools).calls).toEqual(both);
    const one = { tools: true, oneCall: true };
    const trimmed = runEvents(ended, one);
    expect(trimmed.stream.state).toBe('completed');
    expect(trimmed.read.calls).toEqual(both.slice(0, 1));
    expect(rebuilt(answer(message, 'tool_calls'), one).calls).toEqual(both.slice(0, 1));
  });

  test('calls that an engine numbers 0 throughout get their own indexes and ids', () => {
    const events = ['a', 'b'].map((id) => chunk({ tool_calls: [{ index: 0, ...callOf('f', '{}', id) }] }));
    const { calls, ids } = runEvents([...events, chunk({}, 'tool_calls'), '[DONE]'], withTools).read;
    expect(calls).toHaveLength(2);
    expect(new Set(ids).size).toBe(2);
  });

  test('call ids are our own, except an id that the model itself writes, which its next prompt must contain', () => {
    const calls = [callOf('f', '{}', 'chatcmpl-tool-1'), callOf('g', '{}', 'functions.g:1')];
    const { ids } = rebuilt(answer({ tool_calls: calls }, 'tool_calls'), withTools);
    expect(ids).toEqual([expect.stringMatching(/^(call|toolu)_0123456789abcdef0000$/), 'functions.g:1']);
    const deltas = calls.map((call, index) => chunk({ tool_calls: [{ index, ...call }] }));
    expect(runEvents([...deltas, chunk({}, 'tool_calls'), '[DONE]'], withTools).read.ids).toEqual(ids);
  });

  test('a call cut by the token limit leaves no markup in the text; without tools, the markup stays', () => {
    for (const name of ['vllm/210-tools-truncated', 'llamacpp/209-tools-truncated']) {
      expect(rebuilt(capturedJson(name), withTools).text, name).toBe('');
      expect(rebuilt(capturedJson(name)).text, name).toContain('<tool_call>');
    }
    expect(run([captured('vllm/211-tools-truncated-stream')], withTools).read.text).toBe('');
    const cut = answer({ content: 'Sure. <tool_call>\n{"na' }, 'length');
    expect(rebuilt(cut, withTools).text).toBe('Sure. ');
    const content = 'A call begins with <tool_call>.';
    expect(rebuilt(answer({ content }), withTools).text).toBe(content);
  });

  test.each(['', ' \n', null, undefined])(
    'a call whose arguments are %j gets an empty object, streamed or not',
    (given) => {
      const called = { tool_calls: [{ index: 0, id: 'x', function: { name: 'f', arguments: given } }] };
      expect(rebuilt(answer(called, 'tool_calls'), withTools).calls).toEqual([['f', '{}']]);
      const { calls } = runEvents([chunk(called), chunk({}, 'stop'), '[DONE]'], withTools).read;
      expect(calls.map(([name, input]) => [name, input.trim()])).toEqual([['f', '{}']]);
    },
  );

  test.each(ends)(
    'calls decide the finish reason, not the engine, streamed or not: %s of %j',
    (finish, message, ...reasons) => {
      const expected = { finish: reasons[answerSurfaces.indexOf(surface)] };
      expect(rebuilt(answer(message, finish), withTools)).toMatchObject(expected);
      expect(runEvents([chunk(message), chunk({}, finish), '[DONE]'], withTools).read).toMatchObject(
        expected,
      );
    },
  );

  test('the result is the same however the bytes are cut', () => {
    const accents = bytesOf([
      chunk({ content: 'é😀ü' }),
      chunk({ reasoning: '漢字' }),
      chunk({}, 'stop'),
      '[DONE]',
    ]);
    const wholes = [
      ...Object.keys(streams),
      'sglang/232-tools-required-complete-stream',
      'llamacpp/98-mid-stream-term',
    ];
    const cases = [...wholes.map(captured), accents].map((bytes) => ({
      bytes,
      whole: run([bytes], withTools),
    }));
    fc.assert(
      fc.property(
        fc.constantFrom(...cases),
        fc.array(fc.nat(), { maxLength: 40 }),
        ({ bytes, whole }, cuts) => {
          const places = [0, ...cuts.map((cut) => cut % bytes.length).sort((a, b) => a - b), bytes.length];
          const cut = run(
            places.slice(1).map((to, at) => bytes.subarray(places[at], to)),
            withTools,
          );
          expect(cut.wire).toBe(whole.wire);
          expect(cut.stream.state).toBe(whole.stream.state);
        },
      ),
      { numRuns: 200 },
    );
  });

  test('whatever a node sends, a stream is well-formed, and its end comes only with completion', () => {
    const delta = fc.record(
      {
        content: fc.oneof(fc.string(), fc.constant(null), fc.nat()),
        reasoning: fc.string({ maxLength: 5 }),
        tool_calls: fc.oneof(
          fc.jsonValue(),
          fc.constantFrom([{ index: 0, ...callOf('f', '{}') }], [{ index: 0, function: { arguments: '{' } }]),
        ),
      },
      { requiredKeys: [] },
    );
    const event = fc.oneof(
      { weight: 4, arbitrary: delta.map((value) => chunk(value)) },
      { weight: 4, arbitrary: fc.constantFrom('stop', 'length', 'abort').map((reason) => chunk({}, reason)) },
      {
        weight: 1,
        arbitrary: fc.constantFrom<object>(usageChunk, { error: {} }, { choices: null }, { object: 'error' }),
      },
      { weight: 1, arbitrary: fc.jsonValue().map((value) => ({ value })) },
    );
    let completed = 0;
    fc.assert(
      fc.property(fc.array(event, { maxLength: 8 }), fc.boolean(), (events, isDone) => {
        const { stream, read } = runEvents(isDone ? [...events, '[DONE]'] : events, withTools);
        expect(['completed', 'failed']).toContain(stream.state);
        expect(read.isComplete).toBe(stream.state === 'completed');
        if (read.isComplete) completed += 1;
      }),
      { numRuns: 500 },
    );
    expect(completed).toBeGreaterThan(5);
  });

  test('any answer from a node gives a completion or a failure', () => {
    const message = fc.record(
      {
        content: fc.oneof(fc.string(), fc.constant(null)),
        tool_calls: fc.jsonValue(),
        reasoning: fc.jsonValue(),
      },
      { requiredKeys: [] },
    );
    const given = fc.oneof(
      fc.jsonValue(),
      message.map((value) => answer(value, 'stop', { extra: 'vllm' })),
    );
    const keys = Object.keys(rebuiltBy(surface, answer({ content: 'a' })).body);
    fc.assert(
      fc.property(given, (value) => {
        try {
          expect(Object.keys(rebuiltBy(surface, value).body)).toEqual(keys);
        } catch (error) {
          expect(error).toBeInstanceOf(NodeFailure);
        }
      }),
    );
  });

  test('a stream and a body with the same content are read alike', () => {
    const texts = fc.array(fc.string({ minLength: 1, maxLength: 8 }), { maxLength: 3 });
    const inputs = fc.dictionary(fc.string({ maxLength: 4 }), fc.jsonValue({ maxDepth: 2 }), { maxKeys: 3 });
    const words = fc.record({
      reasoning: texts,
      content: texts,
      calls: fc.array(inputs, { maxLength: 3 }),
      finish: fc.constantFrom('stop', 'length', 'tool_calls', 'content_filter'),
      cut: fc.nat(30),
    });
    fc.assert(
      fc.property(words, ({ reasoning, content, calls, finish, cut }) => {
        const given = calls.map((input, index) => callOf(`f${index}`, JSON.stringify(input), `id${index}`));
        const streamed = runEvents(
          [
            ...reasoning.map((added) => chunk({ reasoning_content: added })),
            ...content.map((added) => chunk({ content: added })),
            ...given.flatMap(({ function: { name, arguments: input } }, index) => [
              called(index, name, input.slice(0, cut)),
              grown(index, input.slice(cut)),
            ]),
            chunk({}, finish),
            usageChunk,
            '[DONE]',
          ],
          withTools,
        ).read;
        const message = {
          reasoning_content: reasoning.join(''),
          content: content.join(''),
          tool_calls: given,
        };
        const whole = rebuilt(answer(message, finish), withTools);
        const parsed = (read: typeof whole) => ({
          ...read,
          calls: read.calls.map(([name, input]) => [name, JSON.parse(input)]),
        });
        expect(parsed(streamed)).toEqual(parsed(whole));
      }),
      { numRuns: 300 },
    );
  });
});
