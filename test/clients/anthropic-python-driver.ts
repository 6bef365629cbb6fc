/** Driver for the official Anthropic library for Python. This file builds the request bodies and reads the answers. */
import { toolResult } from './client.ts';
import { type Ask, bodyOf, type Message, type MessagesClient, saidBy } from './messages-client.ts';
import { pythonProcess } from './python-driver.ts';

export interface AnthropicPython extends MessagesClient {
  /** Calls the library's tool runner with its default setting, which keeps the conversation in a server-side thread. */
  converseByThread(ask: Ask): Promise<unknown>;
}

export async function anthropicPython(environment: string): Promise<AnthropicPython> {
  const { order, failure } = await pythonProcess('anthropic', environment);
  const parts = (ask: Ask) => ({ url: ask.url, key: ask.key, body: bodyOf(ask), toolResult });
  return {
    whole: async (ask) => saidBy(await order<Message>('whole', parts(ask))),
    stream: async (ask) => saidBy(await order<Message>('stream', parts(ask))),
    converse: async (ask) => {
      const { inputs, message } = await order<{ inputs: unknown[]; message: Message }>(
        'converse',
        parts(ask),
      );
      return { inputs, text: saidBy(message).text };
    },
    converseByThread: (ask) => order('converse', { ...parts(ask), byThread: true }),
    countTokens: (ask) => order<number>('count_tokens', parts(ask)),
    models: (target) => order<string[]>('models', target),
    failure,
  };
}
