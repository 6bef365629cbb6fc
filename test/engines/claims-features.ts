/** Claims about the content of answers: tool calls, JSON by schema, several choices, and vectors. */
import type {
  ChatCompletionMessage,
  ChatCompletionMessageParam,
  ChatCompletionTool,
} from 'openai/resources/chat/completions';
import { expect } from 'vitest';
import { chatFieldGrants } from '../../data-plane/surfaces/common/chat-fields.ts';
import { dialects } from '../../shared/engines/dialects.ts';
import { type Bench, objectOf, refusalFrom, turn, unitTool, zoneTool } from './bench.ts';
import type { Claim } from './claims.ts';
import { habitualCall } from './tiny-model.ts';

function loose(tool: ChatCompletionTool): ChatCompletionTool {
  return tool.type === 'function' ? { ...tool, function: { ...tool.function, strict: false } } : tool;
}

interface EngineToolCall {
  readonly name: string;
  readonly input: unknown;
}

function callsOf({ tool_calls = [] }: Pick<ChatCompletionMessage, 'tool_calls'>): EngineToolCall[] {
  return tool_calls.map((call) => {
    if (call.type !== 'function') throw new Error('a call of another kind');
    expect(call.id).toMatch(/^call_/);
    return { name: call.function.name, input: JSON.parse(call.function.arguments) };
  });
}

const habit: Claim = {
  name: 'calls a tool, the same streamed and not, and answers after its result',
  run: async (bench) => {
    const completions = bench.client.chat.completions;
    // The tools are not strict, because otherwise a grammar would force the model to use exactly the formatting that its
    // engine prefers.
    const tools = [unitTool, zoneTool].map(loose);
    const body = turn(bench, { tools, max_tokens: 200 });
    const answer = await completions.create(body);
    const message = answer.choices[0]?.message as ChatCompletionMessage;
    expect(callsOf(message)).toEqual([habitualCall]);
    expect(answer.choices[0]?.finish_reason).toBe('tool_calls');
    const final = await completions.stream({ ...body, stream: true }).finalChatCompletion();
    expect(callsOf(final.choices[0]?.message as ChatCompletionMessage)).toEqual([habitualCall]);
    expect(final.choices[0]?.finish_reason).toBe('tool_calls');
    const result = {
      role: 'tool',
      tool_call_id: message.tool_calls?.[0]?.id ?? '',
      content: 'done',
    } as const;
    const messages: ChatCompletionMessageParam[] = [...body.messages, message, result];
    const last = await completions.create({ ...body, messages, max_tokens: 12 });
    expect(last.choices[0]?.message.content).toMatch(/[a-z ]{12,}/);
    expect(last.choices[0]?.message.tool_calls).toBeUndefined();
    await bench.billed(3);
  },
};

const required: Claim = {
  name: 'must call some tool where one is required, or the field is refused',
  run: async (bench) => {
    const body = turn(bench, { tools: [unitTool], tool_choice: 'required', max_tokens: 200 });
    if (!dialects[bench.engine.dialect].toolChoices.includes('required'))
      return refusedField(bench, body, 'tool_choice');
    const answer = await bench.client.chat.completions.create(body);
    const [called] = callsOf(answer.choices[0]?.message ?? {});
    expect(called?.name).toBe('set_unit');
    expect(called?.input).toEqual({ unit: expect.stringMatching(/^[cf]$/) });
    const final = await bench.client.chat.completions.stream({ ...body, stream: true }).finalChatCompletion();
    expect(callsOf(final.choices[0]?.message ?? {})[0]?.name).toBe('set_unit');
  },
};

const named: Claim = {
  name: 'must call the tool that was named, and no other, or the field is refused',
  run: async (bench) => {
    const body = turn(bench, {
      tools: [zoneTool, unitTool],
      tool_choice: { type: 'function', function: { name: 'set_unit' } },
      max_tokens: 200,
    });
    const { namedTool } = dialects[bench.engine.dialect];
    if (namedTool === 'refused') return refusedField(bench, body, 'tool_choice');
    bench.tap.take();
    const answer = await bench.client.chat.completions.create(body);
    expect(callsOf(answer.choices[0]?.message ?? {}).map(({ name }) => name)).toEqual(['set_unit']);
    const [sent] = bench.tap.take();
    if (namedTool === 'as-required')
      expect(sent?.body).toMatchObject({ tools: [unitTool], tool_choice: 'required' });
  },
};

const schema: Claim = {
  name: 'writes JSON by the schema, the same streamed and not',
  run: async (bench) => {
    const body = turn(bench, {
      max_tokens: 60,
      response_format: {
        type: 'json_schema',
        json_schema: { name: 'answer', strict: true, schema: objectOf('unit', ['c', 'f']) },
      },
    });
    const answer = await bench.client.chat.completions.create(body);
    const { unit, ...more } = JSON.parse(answer.choices[0]?.message.content ?? '') as Record<string, unknown>;
    expect(['c', 'f']).toContain(unit);
    expect(more).toEqual({});
    const final = await bench.client.chat.completions.stream({ ...body, stream: true }).finalChatCompletion();
    expect(JSON.parse(final.choices[0]?.message.content ?? '')).toEqual({ unit });
  },
};

const unfit: Claim = {
  name: 'a schema that no grammar can be made of is refused as the fault of the request, streamed or not',
  run: async (bench) => {
    const properties = { unit: { $ref: '#/nowhere' } };
    const body = turn(bench, {
      response_format: {
        type: 'json_schema',
        json_schema: { name: 'answer', schema: { type: 'object', properties, required: ['unit'] } },
      },
    });
    for (const stream of [false, true]) await refusedAsShape(bench, { ...body, stream }, 'response_format');
    expect(await bench.billed(0)).toBe(0);
  },
};

const choices: Claim = {
  name: 'gives several choices and all of their usage, or the field is refused',
  run: async (bench) => {
    const body = turn(bench, { n: 2, temperature: 1, max_tokens: 5 });
    if (!chatFieldGrants.n[bench.engine.dialect]) return refusedField(bench, body, 'n');
    const answer = await bench.client.chat.completions.create(body);
    expect(answer.choices.map(({ index }) => index).sort()).toEqual([0, 1]);
    expect(answer.usage?.completion_tokens).toBe(10);
    const final = await bench.client.chat.completions.stream({ ...body, stream: true }).finalChatCompletion();
    expect(final.choices.map(({ index }) => index).sort()).toEqual([0, 1]);
    expect(await bench.billed(2)).toBe(2 * (answer.usage?.total_tokens ?? 0));
  },
};

const biased: Claim = {
  name: 'heeds a bias of tokens, or the field is refused',
  run: async (bench) => {
    // Token 113 is the byte `q`, because the ids of single bytes equal their values.
    const body = turn(bench, { logit_bias: { '113': 100 }, max_tokens: 3 });
    if (!chatFieldGrants.logit_bias[bench.engine.dialect]) return refusedField(bench, body, 'logit_bias');
    const answer = await bench.client.chat.completions.create(body);
    expect(answer.choices[0]?.message.content).toBe('qqq');
  },
};

const likely: Claim = {
  name: 'reports how likely its tokens were, in the members of the shape alone',
  run: async (bench) => {
    const body = turn(bench, { logprobs: true, top_logprobs: 2, max_tokens: 3 });
    const answer = await bench.client.chat.completions.create(body);
    const content = answer.choices[0]?.logprobs?.content ?? [];
    expect(content).toHaveLength(3);
    for (const one of content) {
      expect(Object.keys(one).sort()).toEqual(['bytes', 'logprob', 'token', 'top_logprobs']);
      expect(one.top_logprobs).toHaveLength(2);
      expect(one.logprob).toBeLessThanOrEqual(0);
    }
  },
};

const pixel =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==';

const blind: Claim = {
  name: 'an image for a model without eyes is refused, never dropped',
  run: async (bench) => {
    const content = [
      { type: 'text' as const, text: 'look' },
      { type: 'image_url' as const, image_url: { url: pixel } },
    ];
    const body = turn(bench, { messages: [{ role: 'user', content }] });
    for (const stream of [false, true])
      await refusedAsShape(bench, { ...body, stream }, 'messages[0].content[1]');
  },
};

const prefilled: Claim = {
  name: 'continues a last message of the assistant, or the message is refused',
  run: async (bench) => {
    const messages: ChatCompletionMessageParam[] = [
      { role: 'user', content: 'hello there' },
      { role: 'assistant', content: 'the water' },
    ];
    const body = turn(bench, { messages });
    if (dialects[bench.engine.dialect].prefill === undefined) return refusedField(bench, body, 'messages[1]');
    const plain = await bench.client.chat.completions.create(turn(bench));
    const answer = await bench.client.chat.completions.create(body);
    const added = (answer.usage?.prompt_tokens ?? 0) - (plain.usage?.prompt_tokens ?? 0);
    // The five tokens are `the`, ` w`, `a`, `t` and `er`. There is no marker of another turn.
    expect(added).toBe(5);
  },
};

const embedded: Claim = {
  name: 'embeds one text and several in their order, as numbers and as bytes, and bills them',
  run: async ({ client, engine, billed }) => {
    const model = engine.embeddingModel;
    const input = ['the water', 'a well', 'the water'];
    const floats = await client.embeddings.create({ model, input, encoding_format: 'float' });
    const bytes = await client.embeddings.create({ model, input });
    const [first, second, third] = floats.data.map(({ embedding }) => embedding);
    expect(first).toHaveLength(64);
    expect(first).toEqual(third);
    expect(first).not.toEqual(second);
    for (const [at, { index, embedding }] of bytes.data.entries()) {
      expect(index).toBe(at);
      expect(distance(embedding, floats.data[at]?.embedding ?? [])).toBeLessThan(1e-5);
    }
    const one = await client.embeddings.create({ model, input: 'a well' });
    expect(distance(one.data[0]?.embedding ?? [], second ?? [])).toBeLessThan(1e-4);
    const reported = [floats, bytes, one].reduce((sum, answer) => sum + answer.usage.total_tokens, 0);
    expect(await billed(3)).toBe(reported);
  },
};

const shortened: Claim = {
  name: 'embeds token ids, and in fewer dimensions, or the field is refused',
  run: async ({ client, engine }) => {
    const table = dialects[engine.dialect];
    const model = engine.embeddingModel;
    const ids = client.embeddings.create({ model, input: [104, 105] });
    if (table.takesTokenInput) expect((await ids).data).toHaveLength(1);
    else
      expect(await refusalFrom(ids)).toMatchObject({
        status: 400,
        message: expect.stringContaining('input'),
      });
    const short = client.embeddings.create({ model, input: 'a well', dimensions: 8 });
    if (table.takesDimensions) {
      // A model that is not trained for shorter vectors may refuse, but must not return longer ones.
      const answer = await short.catch((error: unknown) => refusalFrom(Promise.reject(error)));
      if ('data' in answer) expect(answer.data[0]?.embedding).toHaveLength(8);
    } else {
      expect(await refusalFrom(short)).toMatchObject({
        status: 400,
        message: expect.stringContaining('dimensions'),
      });
    }
  },
};

function distance(one: readonly number[], other: readonly number[]): number {
  return Math.hypot(...one.map((value, at) => value - (other[at] ?? 0)));
}

type ChatBody = Parameters<Bench['client']['chat']['completions']['create']>[0];

async function refusedAsShape(bench: Bench, body: ChatBody, field: string): Promise<void> {
  const refusal = await refusalFrom(bench.client.chat.completions.create(body));
  expect(refusal).toMatchObject({ status: 400, type: 'UnsupportedShapeError' });
  expect(refusal.message).toContain(field);
}

async function refusedField(bench: Bench, body: ReturnType<typeof turn>, field: string): Promise<void> {
  bench.tap.take();
  const refusal = await refusalFrom(bench.client.chat.completions.create(body));
  expect(refusal).toMatchObject({ status: 400, type: 'UnsupportedShapeError' });
  expect(refusal.message).toContain(field);
  expect(bench.tap.take(), 'nothing reached the engine').toEqual([]);
}

export const featureClaims: readonly Claim[] = [
  ...[habit, required, named, schema, unfit, choices, biased, likely],
  ...[blind, prefilled, embedded, shortened],
];
