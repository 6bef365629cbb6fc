/**
 * Goal: a simulated node has the API that the official client expects.
 */
import OpenAI from 'openai';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type SimNode, startSimNode } from './sim-node.ts';

let node: SimNode;
let client: OpenAI;
beforeAll(async () => {
  node = await startSimNode({ models: ['m'], tokensPerSecond: 1000 });
  client = new OpenAI({ baseURL: `${node.url}/v1`, apiKey: 'none', maxRetries: 0 });
});
afterAll(() => node.close());

const messages = [{ role: 'user' as const, content: 'call weather in Paris' }];
const tools = [
  {
    type: 'function' as const,
    function: {
      name: 'weather',
      parameters: { type: 'object', required: ['city'], properties: { city: { type: 'string' } } },
    },
  },
];

test('the listing', async () => {
  expect((await client.models.list()).data.map((model) => model.id)).toEqual(['m']);
});

test('a chat', async () => {
  const answer = await client.chat.completions.create({ model: 'm', messages, max_tokens: 3 });
  expect(answer.choices[0]).toMatchObject({
    message: { content: 'echo: call weather' },
    finish_reason: 'length',
  });
  expect(answer.usage).toMatchObject({ prompt_tokens: 9, completion_tokens: 3, total_tokens: 12 });
});

test('a stream, gathered by the helper of the client', async () => {
  const stream = client.chat.completions.stream({
    model: 'm',
    messages,
    stream_options: { include_usage: true },
  });
  const answer = await stream.finalChatCompletion();
  expect(answer.choices[0]?.message.content).toMatch(/^echo: call weather in Paris echo:/);
  expect(answer.usage?.completion_tokens).toBe(16);
});

test('a tool, streamed and run by the helper of the client', async () => {
  const runner = client.chat.completions.runTools({
    model: 'm',
    stream: true,
    messages,
    tools: [
      {
        type: 'function',
        function: {
          name: 'weather',
          description: 'the weather of a city',
          parameters: tools[0]!.function.parameters,
          function: ({ city }: { city: string }) => `sunny in ${city}`,
          parse: (text: string): { city: string } => JSON.parse(text),
        },
      },
    ],
  });
  expect(await runner.finalContent()).toMatch(/^echo: sunny in text/);
});

test('a tool call', async () => {
  const answer = await client.chat.completions.create({
    model: 'm',
    messages,
    tools,
    tool_choice: 'required',
  });
  expect(answer.choices[0]).toMatchObject({
    finish_reason: 'tool_calls',
    message: { tool_calls: [{ function: { name: 'weather', arguments: '{"city":"text"}' } }] },
  });
});

test('embeddings, which the client asks for as base64', async () => {
  const answer = await client.embeddings.create({ model: 'm', input: ['a', 'b'] });
  expect(answer.data.map((item) => item.embedding.length)).toEqual([64, 64]);
  expect(Math.hypot(...answer.data[0]!.embedding)).toBeCloseTo(1, 5);
});

test('an unknown model', async () => {
  const asked = client.chat.completions.create({ model: 'x', messages });
  await expect(asked).rejects.toMatchObject({ status: 404, type: 'NotFoundError' });
});
