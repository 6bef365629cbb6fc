/**
 * Driver for OpenAI's Agents SDK, which uses the Responses API by default. Tracing is switched off, because it would send
 * traces to OpenAI.
 */
import { cachedModule } from './cache.ts';
import { type Ask, type Client, failureOf, toolResult, weather } from './client.ts';

export async function agentsClient(name: string): Promise<Client> {
  const { Agent, OpenAIProvider, Runner, tool } = await import(
    cachedModule('@openai/agents', 'dist/index.mjs')
  );
  const runner = ({ url, key }: Ask) =>
    new Runner({
      modelProvider: new OpenAIProvider({ baseURL: url, apiKey: key }),
      tracingDisabled: true,
    });
  const agentOf = ({ model, extra }: Ask, tools: readonly unknown[] = []) =>
    new Agent({
      ...{ name: 'assistant', instructions: 'Be brief.', model, tools },
      ...(extra && { modelSettings: { providerData: extra } }),
    });
  const inputOf = ({ text, image }: Ask) =>
    image === undefined
      ? text
      : [
          {
            role: 'user',
            content: [
              { type: 'input_text', text },
              { type: 'input_image', image },
            ],
          },
        ];
  return {
    name,
    chat: async (ask) => (await runner(ask).run(agentOf(ask), inputOf(ask))).finalOutput,
    stream: async (ask) => {
      const result = await runner(ask).run(agentOf(ask), inputOf(ask), { stream: true });
      let text = '';
      for await (const piece of result.toTextStream()) text += piece;
      await result.completed;
      if (result.finalOutput !== text) throw new Error('the end of the stream has another text');
      return text;
    },
    tools: async (ask) => {
      let input: unknown;
      const offered = tool({
        ...weather,
        execute: (given: unknown) => {
          input = given;
          return toolResult;
        },
      });
      const { finalOutput: text } = await runner(ask).run(agentOf(ask, [offered]), ask.text);
      return { input, text };
    },
    failure: failureOf,
  };
}
