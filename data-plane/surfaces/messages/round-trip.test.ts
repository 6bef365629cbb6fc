/**
 * Tests the round trip of answers: if the client sends a node's answer back together with the results of its tools, the
 * answer must reach the node unchanged, streamed and whole, for every engine. same-request.test.ts covers the conversion of
 * requests.
 */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Dialect } from '../../../schemas/names.ts';
import { BodyBudget } from '../../../shared/runtime/byte-budget.ts';
import { readMessageEvents } from '../../../test/support/message-events.ts';
import { answerFacts } from '../common/chat-parts.ts';
import { toNodeBody } from '../common/node-body.ts';
import { SurfaceStream } from '../common/surface-stream.ts';
import { MessagesWriter } from './messages-stream.ts';
import { rebuildMessages } from './rebuild-messages.ts';
import { shapeMessages } from './shape-messages.ts';

type Fields = Record<string, unknown>;

const headers = { contentType: 'application/json', version: '2023-06-01' };
const ids = { unique: 'abc123', createdSeconds: 0 };
const dialectNames = ['vllm', 'sglang', 'llamacpp', 'ollama'] as const;
const target = { servedName: 'served', maxTokens: 1000, seesImages: true };

const shaped = (fields: object) => shapeMessages(JSON.parse(JSON.stringify(fields)), headers);
const sentTo = (dialect: Dialect, fields: object): Fields => ({
  ...toNodeBody(shaped(fields).asked, dialect, target),
});

const words = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 12 });
const toolName = fc.constantFrom('get_time', 'set-unit', 'x');
const plainValue = fc
  .jsonValue({ maxDepth: 2 })
  .filter((value) => !JSON.stringify(value).includes('__proto__'));
const input = fc.dictionary(
  words.filter((key) => key !== '__proto__'),
  plainValue,
  { maxKeys: 3 },
);

const turn = fc.record({
  reasoning: fc.option(words, { nil: undefined }),
  content: fc.option(words, { nil: undefined }),
  calls: fc.array(fc.record({ name: toolName, input }), { maxLength: 3 }),
});
type Turn = typeof turn extends fc.Arbitrary<infer T> ? T : never;

const tools = ['get_time', 'set-unit', 'x'].map((name) => ({ name, input_schema: { type: 'object' } }));
const question = { role: 'user', content: 'what time is it?' };
const first = { model: 'asked', max_tokens: 1000, tools, messages: [question] };
const usage = { prompt_tokens: 9, completion_tokens: 4 };

/** Limits of the node's answers. `thoughtsIn` names the field in which an engine sends its reasoning. */
const node = { maxTokens: 50, windowTokens: null };
const thoughtsIn = (dialect: Dialect): string =>
  dialect === 'vllm' || dialect === 'ollama' ? 'reasoning' : 'reasoning_content';

function wholeAnswer({ reasoning, content, calls }: Turn, dialect: Dialect): Fields[] {
  const message = {
    role: 'assistant',
    content: content ?? null,
    ...(reasoning !== undefined && { [thoughtsIn(dialect)]: reasoning }),
    ...(calls.length > 0 && {
      tool_calls: calls.map(({ name, input: given }, at) => ({
        id: `engine-${at}`,
        type: 'function',
        function: { name, arguments: JSON.stringify(given) },
      })),
    }),
  };
  const answer = {
    choices: [{ index: 0, message, finish_reason: calls.length > 0 ? 'tool_calls' : 'stop' }],
    usage,
  };
  const { asked, context } = shaped(first);
  const { body } = rebuildMessages(answer, answerFacts(asked, ids, node), context);
  return (JSON.parse(body) as { content: Fields[] }).content;
}

function pieces(text: string, size: number): string[] {
  const characters = [...text];
  return Array.from({ length: Math.ceil(characters.length / size) }, (_, at) =>
    characters.slice(at * size, (at + 1) * size).join(''),
  );
}

function streamedAnswer({ reasoning, content, calls }: Turn, dialect: Dialect, size: number): Fields[] {
  const { asked, context } = shaped({ ...first, stream: true });
  const facts = answerFacts(asked, ids, node);
  const stream = new SurfaceStream(facts, new MessagesWriter(facts, context, new BodyBudget()));
  const deltas: object[] = [
    { role: 'assistant', content: '' },
    ...pieces(reasoning ?? '', size).map((text) => ({ [thoughtsIn(dialect)]: text })),
    ...pieces(content ?? '', size).map((text) => ({ content: text })),
    ...calls.flatMap(({ name, input: given }, index) => [
      { tool_calls: [{ index, id: `engine-${index}`, function: { name, arguments: '' } }] },
      ...pieces(JSON.stringify(given), size).map((text) => ({
        tool_calls: [{ index, function: { arguments: text } }],
      })),
    ]),
  ];
  const chunks = [
    ...deltas.map((delta) => ({ choices: [{ index: 0, delta, finish_reason: null }] })),
    { choices: [{ index: 0, delta: {}, finish_reason: calls.length > 0 ? 'tool_calls' : 'stop' }] },
    { choices: [], usage },
  ];
  const wire = [...chunks.map((chunk) => JSON.stringify(chunk)), '[DONE]'].flatMap((data) =>
    stream.push(data),
  );
  const read = readMessageEvents(wire.join(''));
  expect(read.isComplete).toBe(true);
  return read.content.map((block) =>
    block['type'] === 'tool_use' ? { ...block, input: JSON.parse(String(block['input'])) } : { ...block },
  );
}

/** Returns the client's next request: the unchanged answer, and a result for each call. */
const nextBody = (content: readonly Fields[]): object => {
  const uses = content.filter(({ type }) => type === 'tool_use');
  const results = uses.map(({ id }, at) => ({
    type: 'tool_result',
    tool_use_id: id,
    content: `result ${at}`,
  }));
  const said = uses.length === 0 ? 'and then?' : results;
  return { ...first, messages: [question, { role: 'assistant', content }, { role: 'user', content: said }] };
};

test.each(dialectNames)(
  'an answer of %s comes back to it unchanged, with the results of its tools',
  (dialect) => {
    fc.assert(
      fc.property(turn, fc.integer({ min: 1, max: 5 }), (given, size) => {
        const whole = wholeAnswer(given, dialect);
        // The answer must be the same however a stream splits it.
        expect(streamedAnswer(given, dialect, size)).toEqual(whole);
        const { messages } = sentTo(dialect, nextBody(whole)) as { messages: Fields[] };
        const [asked, answered, ...after] = messages as [Fields, Fields, ...Fields[]];
        expect(asked).toEqual(question);
        const calls = (answered['tool_calls'] ?? []) as {
          id: string;
          function: { name: string; arguments: string };
        }[];
        expect({
          reasoning: answered[thoughtsIn(dialect)],
          content: answered['content'] || undefined,
          calls: calls.map(({ function: { name, arguments: text } }) => ({ name, input: JSON.parse(text) })),
        }).toEqual(JSON.parse(JSON.stringify(given)));
        expect(new Set(calls.map(({ id }) => id)).size).toBe(calls.length);
        expect(after).toEqual(
          calls.length === 0
            ? [{ role: 'user', content: 'and then?' }]
            : calls.map(({ id }, at) => ({ role: 'tool', tool_call_id: id, content: `result ${at}` })),
        );
      }),
      { numRuns: 100 },
    );
  },
);
