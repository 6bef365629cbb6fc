/**
 * A body becomes a request, or UnsupportedShapeError (Errors 2): the second phase of a request that reads it.
 * Decided by path alone, never by stack or organisation, so that it reveals nothing of either.
 * What comes out holds only fields that a node may be sent, each checked; no-ops and empty values are gone.
 */
import {
  type ChatFields,
  chatRequestSchema,
  type EmbeddingsFields,
  embeddingsRequestSchema,
} from '../../schemas/openai.ts';
import { Refusal } from '../../shared/decision/refusal.ts';
import { type JsonText, parseStrictJson } from '../core/json-text.ts';
import { plainChatFields } from './plain-chat.ts';
import { chatPromptSize, embeddingsPromptSize, type PromptSize } from './prompt-size.ts';
import { PresentFields, refusalOf, shapeRefusal } from './validate.ts';

/** Features that engines differ on; a dialect honours, maps or refuses each. */
export type ChatNeed =
  | 'images'
  | 'logit_bias'
  | 'many_choices'
  | 'prefill'
  | 'reasoning_effort'
  | 'single_tool_call'
  | 'thinking_budget'
  | 'tool_choice'
  | 'tools'
  | 'top_k';

/** Fields that reach a node much as they came. */
const bodyFields = [
  'messages',
  'temperature',
  'top_p',
  'frequency_penalty',
  'presence_penalty',
  'stop',
  'seed',
  'logprobs',
  'top_logprobs',
  'logit_bias',
  'response_format',
  'tools',
  'tool_choice',
  'reasoning_effort',
] as const;

export type ChatBody = Readonly<Pick<ChatFields, (typeof bodyFields)[number]>>;

export interface ChatRequest extends PromptSize {
  readonly kind: 'chat';
  readonly model: string;
  readonly stream: boolean;
  /** The client wants usage at the end of its stream. */
  readonly includeUsage: boolean;
  /** Tokens of the answer at most, where the client limits them; at least 1. */
  readonly maxTokens: number | undefined;
  /** Answers wanted (`n`). */
  readonly choices: number;
  readonly needs: readonly ChatNeed[];
  /** Where the caller's own body, if it is of another shape, has the field of a need. */
  readonly needPaths?: Readonly<Partial<Record<ChatNeed, readonly PropertyKey[]>>>;
  readonly body: ChatBody;
  /** What the client says prompts have in common. */
  readonly cacheKey?: string;
  /** Hashes of the prompt's prefixes, from short to long. Otherwise worked out by `prefixesOfChat`: one node needs no choice. */
  readonly prefixes?: readonly number[];
  /** The text is in `body`; a ChatOutline refers to the body worker instead. */
  readonly workerText?: undefined;
  /** The answer begins with the tokens of the prompt, where the engine can report them then. */
  readonly usageAtStart?: true;
  /** Settings that this shape does not know, but some engines do. */
  readonly topK?: number;
  readonly thinkingBudgetTokens?: number;
}

export interface EmbeddingsRequest extends PromptSize {
  readonly kind: 'embeddings';
  readonly model: string;
  /** Vectors that the answer must have. */
  readonly inputs: number;
  /** What the answer must hold; `float` unless asked otherwise. */
  readonly encoding: 'float' | 'base64';
  readonly dimensions?: number;
  /** The input is token ids, not text. */
  readonly tokenInput: boolean;
  readonly body: { readonly input: EmbeddingsFields['input'] };
  readonly workerText?: undefined;
}

const chatFields = new PresentFields(chatRequestSchema);
const embeddingsFields = new PresentFields(embeddingsRequestSchema);

/** Throws UnsupportedShapeError naming the JSON path, never a value. */
export function shapeChat(raw: Buffer | JsonText, contentType: string | undefined): ChatRequest {
  const fields = chatFieldsOf(parseBody(raw, contentType));
  refuseContradictions(fields);
  const body = carriedFields(fields);
  const maxTokens = Math.min(fields.max_tokens ?? Infinity, fields.max_completion_tokens ?? Infinity);
  const { promptBytes, likelyTokens, textBytes } = chatPromptSize(body);
  return {
    kind: 'chat',
    model: fields.model,
    stream: fields.stream === true,
    includeUsage: fields.stream_options?.include_usage === true,
    maxTokens: maxTokens === Infinity ? undefined : maxTokens,
    choices: fields.n ?? 1,
    needs: needsOf(fields),
    body,
    promptBytes,
    likelyTokens,
    textBytes,
    ...(fields.prompt_cache_key === undefined ? {} : { cacheKey: fields.prompt_cache_key }),
  };
}

function chatFieldsOf(value: Record<string, unknown>): ChatFields {
  const plain = plainChatFields(value);
  if (plain !== undefined) return plain;
  const parsed = chatFields.safeParse(value);
  if (!parsed.success) throw refusalOf(parsed.error);
  return parsed.data;
}

/** Throws UnsupportedShapeError naming the JSON path, never a value. */
export function shapeEmbeddings(raw: Buffer | JsonText, contentType: string | undefined): EmbeddingsRequest {
  const parsed = embeddingsFields.safeParse(parseBody(raw, contentType));
  if (!parsed.success) throw refusalOf(parsed.error);
  const { model, input, encoding_format, dimensions } = parsed.data;
  const first = typeof input === 'string' ? input : input[0];
  return {
    kind: 'embeddings',
    model,
    inputs: typeof input === 'string' || typeof first === 'number' ? 1 : input.length,
    encoding: encoding_format ?? 'float',
    ...(dimensions === undefined ? {} : { dimensions }),
    tokenInput: typeof first !== 'string',
    body: { input },
    ...embeddingsPromptSize(input),
  };
}

/** The object in a body of JSON. Throws UnsupportedShapeError. */
export function parseBody(raw: Buffer | JsonText, contentType: string | undefined): Record<string, unknown> {
  refuseOtherThanJson(contentType);
  const value = parseStrictJson(raw);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw shapeRefusal([], 'must be a JSON object');
  }
  return value as Record<string, unknown>;
}

/** Throws UnsupportedShapeError. */
export function refuseOtherThanJson(contentType: string | undefined): void {
  if (isJson(contentType)) return;
  throw new Refusal('shape', 'the content type must be application/json');
}

/** `application/json`, with no charset but UTF-8, which is the only one that JSON has. */
function isJson(contentType: string | undefined): boolean {
  if (contentType === 'application/json') return true;
  if (contentType === undefined || contentType.length > 200) return false;
  const [type, ...parameters] = contentType.toLowerCase().split(';');
  if (type?.trim() !== 'application/json') return false;
  return parameters.every((parameter) => {
    const [name, value] = parameter.trim().split('=');
    return name !== 'charset' || value === 'utf-8' || value === '"utf-8"' || value === 'utf8';
  });
}

/** Rules over several fields: each names the field that has no meaning as it is. */
function refuseContradictions(fields: ChatFields): void {
  if (fields.stream_options !== undefined && fields.stream !== true) {
    throw shapeRefusal(['stream_options'], 'needs stream');
  }
  if (fields.top_logprobs !== undefined && fields.top_logprobs > 0 && fields.logprobs !== true) {
    throw shapeRefusal(['top_logprobs'], 'needs logprobs');
  }
  refuseToolContradictions(fields);
  const last = fields.messages[fields.messages.length - 1];
  if (last?.role === 'assistant' && last.tool_calls !== undefined) {
    throw shapeRefusal(
      ['messages', fields.messages.length - 1, 'tool_calls'],
      'must be answered by a message',
    );
  }
}

function refuseToolContradictions({ tools, tool_choice: choice }: ChatFields): void {
  if (choice === undefined || choice === 'auto' || choice === 'none') return;
  if (tools === undefined) throw shapeRefusal(['tool_choice'], 'needs tools');
  if (choice === 'required') return;
  if (!tools.some((tool) => tool.function.name === choice.function.name)) {
    throw shapeRefusal(['tool_choice', 'function', 'name'], 'must be one of the tools');
  }
}

function carriedFields(fields: ChatFields): ChatBody {
  const body: Record<string, unknown> = {};
  for (const name of bodyFields) {
    // Without tools there is nothing to choose from; engines refuse even the default then.
    if (name === 'tool_choice' && fields.tools === undefined) continue;
    if (fields[name] !== undefined) body[name] = fields[name];
  }
  return body as ChatBody;
}

function needsOf(fields: ChatFields): ChatNeed[] {
  const needs: ChatNeed[] = [];
  if (fields.messages.some(hasImage)) needs.push('images');
  if (fields.logit_bias !== undefined) needs.push('logit_bias');
  if (fields.n !== undefined && fields.n > 1) needs.push('many_choices');
  if (fields.messages[fields.messages.length - 1]?.role === 'assistant') needs.push('prefill');
  if (fields.reasoning_effort !== undefined) needs.push('reasoning_effort');
  if (fields.tools !== undefined) {
    needs.push('tools');
    if (fields.parallel_tool_calls === false) needs.push('single_tool_call');
    if (fields.tool_choice !== undefined && fields.tool_choice !== 'auto') needs.push('tool_choice');
  }
  return needs;
}

function hasImage(message: ChatFields['messages'][number]): boolean {
  return Array.isArray(message.content) && message.content.some((part) => part.type === 'image_url');
}
