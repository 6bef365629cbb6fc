/** Driver for the official Anthropic library, before and after its first major version. */
import { cachedModule } from './cache.ts';
import { failureOf, toolResult } from './client.ts';
import type { Target } from './client-fleet.ts';
import { type Ask, bodyOf, type MessagesClient, saidBy, weatherTool } from './messages-client.ts';

export interface AnthropicClient extends MessagesClient {
  /** Calls the library's tool runner with its default setting, which keeps the conversation in a server-side thread. */
  converseByThread(ask: Ask): Promise<unknown>;
  send(options: object, ask: Ask, requestOptions?: object): Promise<unknown>;
}

export async function anthropicClient(version: '0' | '1'): Promise<AnthropicClient> {
  const { default: Anthropic } = await import(cachedModule(`anthropic${version}`, 'index.mjs'));
  const { betaTool } = await import(cachedModule(`anthropic${version}`, 'helpers/beta/json-schema.mjs'));
  const open = ({ url, key }: Target) => new Anthropic({ baseURL: url, apiKey: key });
  const runner = (ask: Ask, inputs: unknown[], more: object) => {
    const { name, description, input_schema: inputSchema } = weatherTool;
    const run = (input: unknown) => {
      inputs.push(input);
      return toolResult;
    };
    const tools = [betaTool({ name, description, inputSchema, run })];
    return open(ask).beta.messages.toolRunner({ ...bodyOf(ask), tools, ...more });
  };
  return {
    whole: async (ask) => saidBy(await open(ask).messages.create(bodyOf(ask))),
    stream: async (ask) => saidBy(await open(ask).messages.stream(bodyOf(ask)).finalMessage()),
    converse: async (ask) => {
      const inputs: unknown[] = [];
      // Older versions do not know threads and would send the field to the server unchanged.
      const last = await runner(ask, inputs, version === '0' ? {} : { thread: false });
      return { inputs, text: saidBy(last).text };
    },
    converseByThread: (ask) => runner(ask, [], {}),
    countTokens: async (ask) => {
      const { max_tokens: _, ...body } = bodyOf(ask);
      return (await open(ask).messages.countTokens(body)).input_tokens;
    },
    models: async (target) => {
      const client = open(target);
      const ids: string[] = [];
      for await (const { id } of client.models.list()) ids.push((await client.models.retrieve(id)).id);
      return ids;
    },
    send: ({ ...options }, ask, requestOptions) =>
      new Anthropic({ baseURL: ask.url, ...options }).messages.create(bodyOf(ask), requestOptions),
    failure: failureOf,
  };
}
