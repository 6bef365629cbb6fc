/**
 * Driver for Vercel's AI SDK with one of its providers: openai-compatible, the OpenAI provider's `chat`, that provider's
 * default model (which uses the Responses API), or Open Responses.
 */
import { type Ask, type Client, type Failure, toolResult, weather } from './client.ts';
import type { Target } from './client-fleet.ts';

export interface VercelPackages {
  readonly ai: string;
  readonly provider: string;
  readonly kind: 'openai-compatible' | 'openai.chat' | 'openai' | 'open-responses';
}

interface CallError {
  readonly name: string;
  readonly statusCode?: number;
  readonly responseBody?: string;
  /** Error of the last attempt, if this is a RetryError. */
  readonly lastError?: CallError;
}

export async function vercelClient(name: string, { ai, provider, kind }: VercelPackages): Promise<Client> {
  const sdk = await import(ai);
  const made = await import(provider);
  const makers = {
    'openai-compatible': ({ url, key }: Target) =>
      made.createOpenAICompatible({ name: 'headgate', baseURL: url, apiKey: key }),
    'openai.chat': ({ url, key }: Target) => made.createOpenAI({ baseURL: url, apiKey: key }),
    openai: ({ url, key }: Target) => made.createOpenAI({ baseURL: url, apiKey: key }),
    'open-responses': ({ url, key }: Target) =>
      made.createOpenResponses({ name: 'headgate', url: `${url}/responses`, apiKey: key }),
  };
  const open = (target: Target) => makers[kind](target);
  const modelOf = ({ model, ...target }: Target & { model: string }) =>
    kind === 'openai.chat' ? open(target).chat(model) : open(target)(model);
  const promptOf = ({ text, image }: Ask) =>
    image === undefined
      ? { prompt: text }
      : {
          messages: [
            {
              role: 'user',
              content: [
                { type: 'text', text },
                { type: 'image', image },
              ],
            },
          ],
        };
  const steps = sdk.stepCountIs ?? sdk.isStepCount;
  return {
    name,
    chat: async (ask) => {
      const providerOptions = { headgate: ask.extra ?? {} };
      return (await sdk.generateText({ model: modelOf(ask), ...promptOf(ask), providerOptions })).text;
    },
    stream: async (ask) => {
      let text = '';
      const result = sdk.streamText({ model: modelOf(ask), ...promptOf(ask), onError: () => undefined });
      for await (const part of result.fullStream) {
        if (part.type === 'error') throw part.error;
        if (part.type === 'text-delta') text += part.text;
      }
      return text;
    },
    tools: async (ask) => {
      let input: unknown;
      const tool = sdk.tool({
        description: weather.description,
        inputSchema: sdk.jsonSchema(weather.parameters),
        execute: (given: unknown) => {
          input = given;
          return toolResult;
        },
      });
      const answer = await sdk.generateText({
        model: modelOf(ask),
        prompt: ask.text,
        tools: { weather: tool },
        stopWhen: steps(2),
      });
      return { input, text: answer.text };
    },
    ...(kind !== 'open-responses' && {
      embed: async ({ model, ...target }, texts) => {
        const one = open(target);
        const embedding = (one.embeddingModel ?? one.textEmbeddingModel).call(one, model);
        return (await sdk.embedMany({ model: embedding, values: texts })).embeddings;
      },
    }),
    failure: vercelFailure,
  };
}

/** Describes an error of the SDK. After retries, describes the error of the last attempt. */
export function vercelFailure(thrown: unknown): Failure {
  const error = (thrown as CallError).lastError ?? (thrown as CallError);
  const body = error.responseBody === undefined ? undefined : JSON.parse(error.responseBody);
  return { name: error.name, status: error.statusCode, type: body?.error?.type };
}
