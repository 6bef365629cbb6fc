/** Driver for the official OpenAI library, in the version whose client class is passed in. */
import type OpenAI from 'openai';
import type { ChatCompletionMessageParam, ChatCompletionTool } from 'openai/resources/chat/completions';
import { type Ask, type Client, failureOf, toolResult, weather } from './client.ts';
import type { Target } from './client-fleet.ts';

export function openaiClient(name: string, Library: typeof OpenAI): Client {
  const open = ({ url, key }: Target): OpenAI => new Library({ baseURL: url, apiKey: key });
  const bodyOf = ({ model, text, extra }: Ask) => ({
    model,
    messages: [{ role: 'user', content: text }] as ChatCompletionMessageParam[],
    ...extra,
  });
  const textOf = (answer: OpenAI.ChatCompletion): string => answer.choices[0]?.message.content ?? '';
  return {
    name,
    chat: async (ask) =>
      textOf(await open(ask).chat.completions.create(bodyOf(ask), { headers: ask.headers ?? {} })),
    stream: async (ask) => {
      let text = '';
      const stream = await open(ask).chat.completions.create({ ...bodyOf(ask), stream: true });
      for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? '';
      return text;
    },
    tools: async (ask) => {
      const client = open(ask);
      const tools: ChatCompletionTool[] = [{ type: 'function', function: weather }];
      const body = { ...bodyOf(ask), tools };
      const message = (await client.chat.completions.create(body)).choices[0]?.message;
      const call = message?.tool_calls?.[0];
      if (!message || call?.type !== 'function') throw new Error('no tool was called');
      const result = { role: 'tool', tool_call_id: call.id, content: toolResult } as const;
      const again = await client.chat.completions.create({
        ...body,
        messages: [...body.messages, message, result],
      });
      return { input: JSON.parse(call.function.arguments), text: textOf(again) };
    },
    embed: async (ask, texts) =>
      (await open(ask).embeddings.create({ model: ask.model, input: [...texts] })).data.map(
        (entry) => entry.embedding,
      ),
    models: async (target) => {
      const ids: string[] = [];
      for await (const model of open(target).models.list()) ids.push(model.id);
      return ids;
    },
    failure: failureOf,
  };
}
