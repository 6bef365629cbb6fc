/** Driver for LlamaIndex (JS) with its OpenAI package, which cannot list models. */
import { cachedModule } from './cache.ts';
import { type Ask, type Client, failureOf, toolResult, weather } from './client.ts';

export async function llamaIndexClient(name: string): Promise<Client> {
  const { OpenAI, OpenAIEmbedding } = await import(cachedModule('@llamaindex/openai', 'dist/index.js'));
  const open = ({ url, key, model, extra }: Ask) =>
    new OpenAI({ model, apiKey: key, baseURL: url, ...(extra && { additionalChatOptions: extra }) });
  const messagesOf = ({ text }: Ask) => [{ role: 'user', content: text }];
  return {
    name,
    chat: async (ask) => (await open(ask).chat({ messages: messagesOf(ask) })).message.content,
    stream: async (ask) => {
      let text = '';
      for await (const part of await open(ask).chat({ messages: messagesOf(ask), stream: true }))
        text += part.delta;
      return text;
    },
    tools: async (ask) => {
      const llm = open(ask);
      const tools = [{ metadata: weather }];
      const messages = messagesOf(ask);
      const { message } = await llm.chat({ messages, tools });
      const [call] = message.options.toolCall;
      const result = {
        role: 'user',
        content: toolResult,
        options: { toolResult: { id: call.id, result: toolResult } },
      };
      const again = await llm.chat({ messages: [...messages, message, result], tools });
      return { input: JSON.parse(call.input), text: again.message.content };
    },
    embed: ({ url, key, model }, texts) =>
      new OpenAIEmbedding({ model, apiKey: key, baseURL: url }).getTextEmbeddings([...texts]),
    failure: failureOf,
  };
}
