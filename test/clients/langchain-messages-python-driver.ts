/** Driver for LangChain (Python) with its Anthropic package. The Python side translates an `Ask` and returns a `Said`. */
import { toolResult } from './client.ts';
import {
  type Ask,
  type MessagesClient,
  maxTokensDefault,
  type Said,
  type ToolTurns,
  thinkingOf,
  weatherTool,
} from './messages-client.ts';
import { pythonProcess } from './python-driver.ts';

export async function langchainMessagesPython(environment: string): Promise<MessagesClient> {
  const { order, failure } = await pythonProcess('langchain_anthropic', environment);
  const parts = ({ url, key, ...ask }: Ask) => ({
    url,
    key,
    ask,
    ...(ask.thinking !== undefined && { thinking: thinkingOf(ask.thinking) }),
    maxTokens: maxTokensDefault,
    tool: weatherTool,
    toolResult,
  });
  return {
    whole: (ask) => order<Said>('whole', parts(ask)),
    stream: (ask) => order<Said>('stream', parts(ask)),
    converse: (ask) => order<ToolTurns>('converse', parts(ask)),
    countTokens: (ask) => order<number>('count_tokens', parts(ask)),
    failure,
  };
}
