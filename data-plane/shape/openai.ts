/**
 * A body becomes a request, or UnsupportedShapeError (Errors 2): the second phase of a request that reads it.
 * Decided by path alone, never by stack or organisation, so that it reveals nothing of either.
 * What comes out holds only fields that a node may be sent, each checked; no-ops and empty values are gone.
 */
import { type ChatField, type ChatSettings, chatFields } from '../../schemas/chat-fields.ts';
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

/** What a chat needs of its node beyond settings; a dialect honours, maps or refuses each. */
export type ChatNeed = 'images' | 'prefill' | 'single_tool_call' | 'tools';

/** What a node is told in the words of the chat completion's shape, much as it came. */
export type ChatBody = Readonly<Pick<ChatFields, 'messages' | 'tools' | 'tool_choice'>> & ChatSettings;

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
  /** Where the caller's own body has these, if that is another place than in a chat completion. */
  readonly paths?: Readonly<Partial<Record<ChatNeed | keyof ChatBody, readonly PropertyKey[]>>>;
  readonly body: ChatBody;
  /** What the client says prompts have in common. */
  readonly cacheKey?: string;
  /** Hashes of the prompt's prefixes, from short to long. Otherwise worked out by `prefixesOfChat`: one node needs no choice. */
  readonly prefixes?: readonly number[];
  /** The text is in `body`; a ChatOutline refers to the body worker instead. */
  readonly workerText?: undefined;
  /** The answer begins with the tokens of the prompt, where the engine can report them then. */
  readonly usageAtStart?: true;
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

const chatSchema = new PresentFields(chatRequestSchema);
const settings: readonly [string, ChatField][] = Object.entries(chatFields);
const embeddingsSchema = new PresentFields(embeddingsRequestSchema);

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
  const parsed = chatSchema.safeParse(value);
  if (!parsed.success) throw refusalOf(parsed.error);
  return parsed.data;
}

/** Throws UnsupportedShapeError naming the JSON path, never a value. */
export function shapeEmbeddings(raw: Buffer | JsonText, contentType: string | undefined): EmbeddingsRequest {
  const parsed = embeddingsSchema.safeParse(parseBody(raw, contentType));
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
  const given: Readonly<Record<string, unknown>> = fields;
  const body: Record<string, unknown> = { messages: fields.messages };
  for (const [name, { unsaid }] of settings)
    if (given[name] !== undefined && given[name] !== unsaid) body[name] = given[name];
  if (fields.tools !== undefined) {
    body['tools'] = fields.tools;
    // Without tools there is nothing to choose from; engines refuse even the default then.
    if (fields.tool_choice !== undefined) body['tool_choice'] = fields.tool_choice;
  }
  return body as unknown as ChatBody;
}

function needsOf(fields: ChatFields): ChatNeed[] {
  const needs: ChatNeed[] = [];
  if (fields.messages.some(hasImage)) needs.push('images');
  if (fields.messages[fields.messages.length - 1]?.role === 'assistant') needs.push('prefill');
  if (fields.tools !== undefined) {
    needs.push('tools');
    if (fields.parallel_tool_calls === false) needs.push('single_tool_call');
  }
  return needs;
}

function hasImage(message: ChatFields['messages'][number]): boolean {
  return Array.isArray(message.content) && message.content.some((part) => part.type === 'image_url');
}
