/**
 * Tests that a request to the Anthropic-style API or the responses API leads to the same body for the node as the equivalent
 * chat request.
 */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { InferenceKind } from '../../schemas/api/operations.ts';
import { type Dialect, dialectSchema } from '../../schemas/names.ts';
import { Refusal } from '../../shared/decision/refusal.ts';
import { runs } from '../../test/support/budget.ts';
import type { WholeChat } from './common/asked.ts';
import { toNodeBody } from './common/node-body.ts';
import { shapeOperation } from './surfaces.ts';

const text = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 5 }).filter((one) => one.trim() !== '');
const png = 'iVBORw0KGgoAAAANSUhEUg==';
const name = fc.constantFrom('f', 'g');
const input = fc.dictionary(fc.string({ maxLength: 4 }), fc.jsonValue({ maxDepth: 1 }), { maxKeys: 2 });
const turn = fc.record({
  /** If there are several texts, they become several parts. The image follows them. */
  asks: fc.array(text, { minLength: 1, maxLength: 2 }),
  image: fc.boolean(),
  thoughts: fc.option(text),
  answer: text,
  calls: fc.array(fc.record({ name, input: input.filter((one) => !Object.hasOwn(one, '__proto__')) }), {
    maxLength: 2,
  }),
  result: text,
});
type Turn = typeof turn extends fc.Arbitrary<infer T> ? T : never;

const request = fc.record({
  instructions: fc.option(text),
  turns: fc.array(turn, { maxLength: 3 }),
  last: text,
  temperature: fc.option(fc.constantFrom(0, 0.5, 1)),
  topP: fc.option(fc.constantFrom(0.5, 1)),
  effort: fc.option(fc.constantFrom('low', 'high', 'xhigh')),
  hasSchema: fc.boolean(),
  maxTokens: fc.integer({ min: 1, max: 9 }),
  stream: fc.boolean(),
  choice: fc.constantFrom('auto', 'auto', 'required', 'none', 'g'),
  oneCall: fc.boolean(),
});
type Request = typeof request extends fc.Arbitrary<infer T> ? T : never;

const schema = { type: 'object', title: 'T' };
const callsOf = ({ calls }: Turn, at: number) => calls.map((call, n) => ({ ...call, id: `c${at}_${n}` }));
const url = `data:image/png;base64,${png}`;
const one = (parts: readonly object[], only: string) => (parts.length === 1 ? only : parts);

const surfaces: Readonly<Record<'chat' | 'messages' | 'responses', (asked: Request) => object>> = {
  chat: ({ instructions, turns, last, maxTokens, effort, hasSchema, choice, oneCall }) => ({
    messages: [
      ...(instructions === null ? [] : [{ role: 'system', content: instructions }]),
      ...turns.flatMap((each, at) => [
        {
          role: 'user',
          content: one(
            [
              ...each.asks.map((asks) => ({ type: 'text', text: asks })),
              ...(each.image ? [{ type: 'image_url', image_url: { url } }] : []),
            ],
            each.asks[0] ?? '',
          ),
        },
        {
          ...{ role: 'assistant', content: each.answer, reasoning_content: each.thoughts },
          tool_calls: callsOf(each, at).map(({ id, name: called, input: given }) => ({
            ...{ id, type: 'function', function: { name: called, arguments: JSON.stringify(given) } },
          })),
        },
        ...callsOf(each, at).map(({ id }) => ({ role: 'tool', tool_call_id: id, content: each.result })),
      ]),
      { role: 'user', content: last },
    ],
    ...{ max_tokens: maxTokens, reasoning_effort: effort },
    tool_choice: choice === 'g' ? { type: 'function', function: { name: choice } } : choice,
    ...(hasSchema && {
      response_format: { type: 'json_schema', json_schema: { name: 'output', schema, strict: true } },
    }),
    tools: ['f', 'g'].map((tool) => ({
      type: 'function',
      function: { name: tool, parameters: { type: 'object' } },
    })),
    parallel_tool_calls: choice === 'none' || !oneCall,
  }),
  // In this API, adjacent turns of the same role are joined, and hidden reasoning is sent back empty.
  messages: ({ instructions, turns, last, maxTokens, effort, hasSchema, choice, oneCall }) => ({
    system: instructions,
    messages: [
      ...turns.flatMap((each, at) => [
        ...each.asks.map((asks) => ({ role: 'user', content: asks })),
        ...(each.image
          ? [
              {
                role: 'user',
                content: [{ type: 'image', source: { type: 'base64', media_type: 'image/png', data: png } }],
              },
            ]
          : []),
        {
          role: 'assistant',
          content: [
            { type: 'thinking', thinking: each.thoughts ?? '', signature: 's' },
            { type: 'text', text: each.answer },
            ...callsOf(each, at).map((call) => ({ type: 'tool_use', ...call })),
          ],
        },
        ...callsOf(each, at).map(({ id }) => ({
          role: 'user',
          content: [{ type: 'tool_result', tool_use_id: id, content: each.result }],
        })),
      ]),
      { role: 'user', content: last },
    ],
    max_tokens: maxTokens,
    output_config: { effort, ...(hasSchema && { format: { type: 'json_schema', schema } }) },
    tool_choice: {
      type: choice === 'g' ? 'tool' : choice === 'required' ? 'any' : choice,
      ...(choice === 'g' && { name: choice }),
      ...(choice !== 'none' && { disable_parallel_tool_use: oneCall }),
    },
    tools: ['f', 'g'].map((tool) => ({ name: tool, input_schema: { type: 'object' } })),
  }),
  responses: ({ instructions, turns, last, maxTokens, effort, hasSchema, choice, oneCall }) => ({
    instructions,
    input: [
      ...turns.flatMap((each, at) => [
        {
          role: 'user',
          content: [
            ...each.asks.map((asks) => ({ type: 'input_text', text: asks })),
            ...(each.image ? [{ type: 'input_image', image_url: url, detail: 'auto' }] : []),
          ],
        },
        ...(each.thoughts === null
          ? []
          : [{ type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text: each.thoughts }] }]),
        { type: 'message', role: 'assistant', content: each.answer },
        ...callsOf(each, at).map(({ id, name: called, input: given }) => ({
          ...{ type: 'function_call', call_id: id, name: called, arguments: JSON.stringify(given) },
        })),
        ...callsOf(each, at).map(({ id }) => ({
          ...{ type: 'function_call_output', call_id: id, output: each.result },
        })),
      ]),
      { role: 'user', content: last },
    ],
    ...{ max_output_tokens: maxTokens, reasoning: { effort } },
    tool_choice: choice === 'g' ? { type: 'function', name: choice } : choice,
    ...(hasSchema && { text: { format: { type: 'json_schema', name: 'output', schema, strict: true } } }),
    tools: ['f', 'g'].map((tool) => ({ type: 'function', name: tool, parameters: { type: 'object' } })),
    parallel_tool_calls: choice === 'none' || !oneCall,
  }),
};

const headers = { contentType: 'application/json', version: undefined };
const bodyOf = (kind: keyof typeof surfaces, asked: Request): Record<string, unknown> => {
  const { temperature, topP: top_p, stream } = asked;
  return { model: 'm', temperature, top_p, stream, ...surfaces[kind](asked) };
};
const shaped = (kind: InferenceKind, body: object): WholeChat =>
  shapeOperation({ kind }, Buffer.from(JSON.stringify(body)), headers).asked as WholeChat;

/** Returns the request that the node receives, or the refusal with the path of the refused field. */
function outcome(asked: WholeChat, dialect: Dialect, body: object): unknown {
  try {
    const sent = toNodeBody(asked, dialect, {
      servedName: 's',
      maxTokens: 9,
      seesImages: dialect !== 'ollama',
    });
    // Leave out `stream_options`, because APIs that report the prompt's tokens at a stream's start always request usage.
    return { ...JSON.parse(JSON.stringify(sent)), stream_options: undefined };
  } catch (error) {
    const [path = '', ...text] = (error as Refusal).message.split(/(?=[.:[])/);
    expect(error).toBeInstanceOf(Refusal);
    expect(Object.keys(body)).toContain(path);
    return text.at(-1);
  }
}

test.each(['messages', 'responses'] as const)(
  '%s: any request reaches each engine as the equivalent chat does, or is refused by its own path',
  (kind) => {
    let refused = 0;
    fc.assert(
      fc.property(request, (asked) => {
        const [body, ofChat] = [bodyOf(kind, asked), bodyOf('chat', asked)];
        const [other, chat] = [shaped(kind, body), shaped('chat', ofChat)];
        for (const dialect of dialectSchema.options) {
          const found = outcome(other, dialect, body);
          expect(found).toEqual(outcome(chat, dialect, ofChat));
          if (typeof found === 'string') refused++;
        }
        const factsOf = ({ needs, stream, choices, promptBytes, likelyTokens, textBytes }: WholeChat) => ({
          ...{ needs: [...needs].sort(), stream, choices, promptBytes, likelyTokens, textBytes },
        });
        expect([factsOf(other), other.maxTokens]).toEqual([factsOf(chat), asked.maxTokens]);
      }),
      { numRuns: runs({ fast: 150, full: 500 }) },
    );
    expect(refused).toBeGreaterThan(10);
  },
);

test('a token count is of the same prompt that a message sends', () => {
  fc.assert(
    fc.property(request, (asked) => {
      const { max_tokens, stream, temperature, top_p, ...prompt } = bodyOf('messages', asked);
      const [counted, message] = [
        shaped('count-tokens', prompt),
        shaped('messages', bodyOf('messages', asked)),
      ];
      expect(counted.promptBytes).toBe(message.promptBytes);
      const { temperature: _, top_p: __, ...expected } = message.body;
      expect(counted.body).toEqual(expected);
    }),
  );
});
