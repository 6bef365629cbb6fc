/**
 * Driver for Vercel's AI SDK with its Anthropic provider, whose base URL ends in `/v1`. It can neither list models nor count
 * tokens.
 */
import { toolResult } from './client.ts';
import {
  type Ask,
  type MessagesClient,
  maxTokensDefault,
  type Said,
  thinkingOf,
  weatherTool,
} from './messages-client.ts';
import { vercelFailure } from './vercel-driver.ts';

export interface VercelMessagesPackages {
  readonly ai: string;
  readonly provider: string;
}

/** The result of `generateText`. `streamText` returns promises of the same members. */
interface Answer {
  readonly text: string;
  readonly reasoningText?: string;
  readonly toolCalls: readonly { readonly toolName: string; readonly input: unknown }[];
  readonly finishReason: string;
  readonly rawFinishReason?: string;
  readonly providerMetadata?: { readonly anthropic?: { readonly stopSequence?: string | null } };
  readonly usage: { readonly inputTokens: number; readonly outputTokens: number };
}

const stops: Readonly<Record<string, string>> = {
  stop: 'end_turn',
  length: 'max_tokens',
  'tool-calls': 'tool_use',
};
const choices = { auto: 'auto', any: 'required', none: 'none', named: { type: 'tool', toolName: 'weather' } };

export async function vercelMessages({ ai, provider }: VercelMessagesPackages): Promise<MessagesClient> {
  const sdk = await import(ai);
  const { createAnthropic } = await import(provider);
  const steps = sdk.stepCountIs ?? sdk.isStepCount;
  const cache = { providerOptions: { anthropic: { cacheControl: { type: 'ephemeral' } } } };
  const toolOf = (execute?: (input: unknown) => string) =>
    sdk.tool({
      description: weatherTool.description,
      inputSchema: sdk.jsonSchema(weatherTool.input_schema),
      ...(execute && { execute }),
    });
  const formatOf = (schema: object) => {
    const output = sdk.Output.object({ schema: sdk.jsonSchema(schema) });
    // Older versions know only the name `experimental_output`.
    return { output, experimental_output: output };
  };
  const callOf = (ask: Ask, more: object = {}) => ({
    model: createAnthropic({ baseURL: `${ask.url}/v1`, apiKey: ask.key })(ask.model),
    messages: [
      {
        role: 'user',
        content: [
          { type: 'text', text: ask.text, ...(ask.cache && cache) },
          ...(ask.image === undefined ? [] : [{ type: 'image', image: Buffer.from(ask.image, 'base64') }]),
        ],
      },
    ],
    maxOutputTokens: ask.maxTokens ?? maxTokensDefault,
    ...(ask.system !== undefined && { system: ask.system }),
    ...(ask.tools && { tools: { weather: toolOf() }, toolChoice: choices[ask.tools] }),
    ...(ask.stop && { stopSequences: ask.stop }),
    ...(ask.temperature !== undefined && { temperature: ask.temperature }),
    ...(ask.topP !== undefined && { topP: ask.topP }),
    ...(ask.topK !== undefined && { topK: ask.topK }),
    ...(ask.schema && formatOf(ask.schema)),
    providerOptions: { anthropic: optionsOf(ask) },
    ...more,
  });
  return {
    whole: async (ask) => saidBy(await sdk.generateText(callOf(ask))),
    stream: async (ask) => {
      const result = sdk.streamText(callOf(ask, { onError: () => undefined }));
      for await (const part of result.fullStream) if (part.type === 'error') throw part.error;
      const names = [
        'text',
        'reasoningText',
        'toolCalls',
        'finishReason',
        'rawFinishReason',
        'providerMetadata',
        'usage',
      ];
      const entries = await Promise.all(names.map(async (name) => [name, await result[name]]));
      return saidBy(Object.fromEntries(entries));
    },
    converse: async (ask) => {
      const inputs: unknown[] = [];
      const weather = toolOf((input) => {
        inputs.push(input);
        return toolResult;
      });
      const answer = await sdk.generateText(callOf(ask, { tools: { weather }, stopWhen: steps(5) }));
      return { inputs, text: answer.text };
    },
    failure: vercelFailure,
  };
}

function optionsOf(ask: Ask): object {
  const { thinking } = ask;
  return {
    structuredOutputMode: 'outputFormat',
    ...(ask.oneCall && { disableParallelToolUse: true }),
    ...(ask.effort && { effort: ask.effort }),
    ...(ask.user !== undefined && { metadata: { userId: ask.user } }),
    ...(thinking !== undefined && {
      thinking:
        typeof thinking === 'number' ? { type: 'enabled', budgetTokens: thinking } : thinkingOf(thinking),
    }),
  };
}

function saidBy(answer: Answer): Said {
  const { text, reasoningText = '', toolCalls, finishReason, providerMetadata, usage } = answer;
  const stopSequence = providerMetadata?.anthropic?.stopSequence ?? undefined;
  return {
    thoughts: reasoningText,
    text,
    calls: toolCalls.map(({ toolName: name, input }) => ({ name, input })),
    stop: stopSequence === undefined ? stops[finishReason] : 'stop_sequence',
    stopSequence,
    inputTokens: usage.inputTokens,
    outputTokens: usage.outputTokens,
  };
}
