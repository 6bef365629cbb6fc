/** Driver for LangChain (JS) with its Anthropic package, which can neither list models nor count tokens. */
import { cachedModule } from './cache.ts';
import { failureOf, toolResult } from './client.ts';
import {
  type Ask,
  type MessagesClient,
  maxTokensDefault,
  type Said,
  thinkingOf,
  weatherTool,
} from './messages-client.ts';

interface Answer {
  readonly content:
    | string
    | readonly { readonly type: string; readonly text?: string; readonly thinking?: string }[];
  readonly tool_calls: readonly { readonly id: string; readonly name: string; readonly args: unknown }[];
  readonly usage_metadata: { readonly input_tokens: number; readonly output_tokens: number };
  readonly response_metadata: { readonly stop_reason?: string; readonly stop_sequence?: string | null };
  readonly additional_kwargs: { readonly stop_reason?: string; readonly stop_sequence?: string | null };
  concat(next: Answer): Answer;
}

const choices = { auto: 'auto', any: 'any', none: 'none', named: weatherTool.name };

export async function langchainMessages(): Promise<MessagesClient> {
  const { ChatAnthropic } = await import(cachedModule('@langchain/anthropic', 'dist/index.js'));
  const { HumanMessage, SystemMessage, ToolMessage } = await import(
    cachedModule('@langchain/core', 'dist/messages/index.js')
  );
  const open = (ask: Ask) => {
    const { thinking, oneCall } = ask;
    const output = {
      ...(ask.effort && { effort: ask.effort }),
      ...(ask.schema && { format: { type: 'json_schema', schema: ask.schema } }),
    };
    const model = new ChatAnthropic({
      model: ask.model,
      apiKey: ask.key,
      anthropicApiUrl: ask.url,
      maxTokens: ask.maxTokens ?? maxTokensDefault,
      ...(ask.stop && { stopSequences: ask.stop }),
      ...(ask.temperature !== undefined && { temperature: ask.temperature }),
      ...(ask.topP !== undefined && { topP: ask.topP }),
      ...(ask.topK !== undefined && { topK: ask.topK }),
      ...(thinking !== undefined && { thinking: thinkingOf(thinking) }),
      ...(Object.keys(output).length > 0 && { outputConfig: output }),
      ...(ask.user !== undefined && { invocationKwargs: { metadata: { user_id: ask.user } } }),
    });
    if (ask.tools === undefined) return model;
    const choice = oneCall ? { type: 'auto', disable_parallel_tool_use: true } : choices[ask.tools];
    return model.bindTools([weatherTool], { tool_choice: choice });
  };
  const messagesOf = (ask: Ask) => {
    const hint = ask.cache && { cache_control: { type: 'ephemeral' } };
    const image = ask.image !== undefined && {
      type: 'image_url',
      image_url: { url: `data:image/png;base64,${ask.image}` },
    };
    const content =
      image || hint ? [{ type: 'text', text: ask.text, ...hint }, ...(image ? [image] : [])] : ask.text;
    return [
      ...(ask.system === undefined ? [] : [new SystemMessage(ask.system)]),
      new HumanMessage({ content }),
    ];
  };
  return {
    whole: async (ask) => saidBy(await open(ask).invoke(messagesOf(ask))),
    stream: async (ask) => {
      let all: Answer | undefined;
      for await (const chunk of await open(ask).stream(messagesOf(ask))) all = all?.concat(chunk) ?? chunk;
      if (all === undefined) throw new Error('the stream was empty');
      return saidBy(all);
    },
    converse: async (ask) => {
      const model = open(ask);
      const inputs: unknown[] = [];
      const messages: unknown[] = messagesOf(ask);
      for (;;) {
        const answer: Answer = await model.invoke(messages);
        messages.push(answer);
        if (answer.tool_calls.length === 0 || inputs.length > 5) return { inputs, text: saidBy(answer).text };
        for (const { id, args } of answer.tool_calls) {
          inputs.push(args);
          messages.push(new ToolMessage({ content: toolResult, tool_call_id: id }));
        }
      }
    },
    failure: failureOf,
  };
}

function saidBy({
  content,
  tool_calls: calls,
  usage_metadata: usage,
  response_metadata,
  additional_kwargs,
}: Answer): Said {
  const blocks = typeof content === 'string' ? [{ type: 'text', text: content, thinking: '' }] : content;
  const end = { ...additional_kwargs, ...response_metadata };
  return {
    thoughts: blocks.map(({ thinking }) => thinking ?? '').join(''),
    text: blocks.map(({ type, text }) => (type === 'text' ? text : '')).join(''),
    calls: calls.map(({ name, args }) => ({ name, input: args })),
    stop: end.stop_reason,
    stopSequence: end.stop_sequence ?? undefined,
    inputTokens: usage.input_tokens,
    outputTokens: usage.output_tokens,
  };
}
