/** Driver for LangChain (JS) with its OpenAI package, which cannot list models. */
import { cachedModule } from './cache.ts';
import { type Ask, type Client, failureOf, toolResult, weather } from './client.ts';

/** Opens the client. `more` contains additional settings of its model. */
export async function langchainClient(name: string, more: object = {}): Promise<Client> {
  const { ChatOpenAI, OpenAIEmbeddings } = await import(cachedModule('@langchain/openai', 'dist/index.js'));
  const { HumanMessage, ToolMessage } = await import(
    cachedModule('@langchain/core', 'dist/messages/index.js')
  );
  const open = ({ url, key, model, extra }: Ask) =>
    new ChatOpenAI({
      model,
      apiKey: key,
      configuration: { baseURL: url },
      ...more,
      ...(extra && { modelKwargs: extra }),
    });
  const inputOf = ({ text, image }: Ask) =>
    image === undefined
      ? text
      : [
          new HumanMessage([
            { type: 'text', text },
            { type: 'image_url', image_url: { url: image } },
          ]),
        ];
  return {
    name,
    chat: async (ask) => (await open(ask).invoke(inputOf(ask))).text,
    stream: async (ask) => {
      let text = '';
      for await (const chunk of await open(ask).stream(inputOf(ask))) text += chunk.text;
      return text;
    },
    tools: async (ask) => {
      const bound = open(ask).bindTools([{ type: 'function', function: weather }]);
      const asked = new HumanMessage(ask.text);
      const answer = await bound.invoke([asked]);
      const [call] = answer.tool_calls;
      const result = new ToolMessage({ content: toolResult, tool_call_id: call.id });
      return { input: call.args, text: (await bound.invoke([asked, answer, result])).text };
    },
    embed: ({ url, key, model }, texts) =>
      new OpenAIEmbeddings({ model, apiKey: key, configuration: { baseURL: url } }).embedDocuments([
        ...texts,
      ]),
    failure: failureOf,
  };
}
