/**
 * Request to a node, in one form for all surfaces: a chat, embeddings, or scores of documents. Its facts are plain values of
 * bounded size, which suffice for limits, routing and the response. The prompt is either part of the object or held by the
 * body worker, which then also writes the node's body.
 */
import type { ChatSettings } from '../../../schemas/api/chat-fields.ts';
import type { ChatFields, EmbeddingsFields } from '../../../schemas/api/openai.ts';
import type { RerankFields } from '../../../schemas/api/rerank.ts';
import type { Dialect } from '../../../schemas/names.ts';
import { hashPrefixes } from './prompt-prefix.ts';
import { leastChatTokens, type PromptSize } from './prompt-size.ts';

/** Capability that a chat needs from its engine in addition to settings. Each dialect supports, translates or refuses it. */
export type ChatNeed = 'images' | 'prefill' | 'single_tool_call' | 'tools';

/** Fields for a node in the format of chat completions, mostly as the client sent them. */
export type ChatBody = Readonly<Pick<ChatFields, 'messages' | 'tools' | 'tool_choice'>> & ChatSettings;

/** Query and documents to score. All documents are texts here, whatever form the client used. */
export interface RerankBody extends Readonly<Pick<RerankFields, 'query'>> {
  readonly documents: readonly string[];
}

export interface ChatFacts extends PromptSize {
  readonly kind: 'chat';
  readonly model: string;
  readonly stream: boolean;
  /** Maximum number of answer tokens that the client set, if any. 0 if the client wants no answer, otherwise at least 1. */
  readonly maxTokens: number | undefined;
  /** Number of alternative answers that the client requests (`n`). */
  readonly choices: number;
  readonly logprobs: boolean;
  /** Whether the client requires the response to follow a JSON schema. */
  readonly hasSchema: boolean;
  readonly needs: readonly ChatNeed[];
  /** Paths, in the caller's body, of fields that are elsewhere in the caller's API than in chat completions. */
  readonly paths?: Readonly<Partial<Record<ChatNeed | keyof ChatBody, readonly PropertyKey[]>>>;
  /** Hint from the client: prompts with the same key share a prefix. */
  readonly cacheKey?: string;
  /** Hashes of the prompt's prefixes, shortest first. If absent, `chatPrefixes` computes them when they are needed. */
  readonly prefixes?: readonly number[];
  /** Set if the response should begin with the prompt's token count, which only some engines report that early. */
  readonly usageAtStart?: true;
}

export interface EmbeddingsFacts extends PromptSize {
  readonly kind: 'embeddings';
  readonly model: string;
  readonly stream: false;
  readonly maxTokens: 0;
  /** Number of vectors that the response must contain. */
  readonly inputs: number;
  /** Encoding of the vectors in the response. */
  readonly encoding: 'float' | 'base64';
  readonly dimensions?: number;
  /** Whether the input consists of token ids rather than text. */
  readonly tokenInput: boolean;
}

export interface RerankFacts extends PromptSize {
  readonly kind: 'rerank';
  readonly model: string;
  readonly stream: false;
  readonly maxTokens: 0;
  /** Number of documents, each of which gets a score. */
  readonly inputs: number;
}

export type AskedFacts = ChatFacts | EmbeddingsFacts | RerankFacts;

/** Path of each kind of request on a node. All engines use the same paths. */
export const nodePaths: Readonly<Record<AskedFacts['kind'], string>> = {
  chat: '/v1/chat/completions',
  embeddings: '/v1/embeddings',
  rerank: '/v1/rerank',
};

interface TextHere<Body> {
  readonly body: Body;
  readonly workerText?: undefined;
}

interface TextOnWorker {
  readonly workerText: WorkerText;
}

/** Some fields as JSON in the client's own words, which are sent to the node unchanged to save the cost of writing them. */
export interface ChatSource {
  /** JSON of the messages. Undefined once a node has received the request, because it is not needed any more. */
  messages: string | undefined;
}

export type WholeChat = ChatFacts & TextHere<ChatBody> & { readonly source?: ChatSource | undefined };
export type WholeEmbeddings = EmbeddingsFacts & TextHere<Readonly<Pick<EmbeddingsFields, 'input'>>>;
export type WholeRerank = RerankFacts & TextHere<RerankBody>;
export type WholeRequest = WholeChat | WholeEmbeddings | WholeRerank;

export type AskedChat = WholeChat | (ChatFacts & TextOnWorker);
export type AskedRequest =
  | AskedChat
  | WholeEmbeddings
  | (EmbeddingsFacts & TextOnWorker)
  | WholeRerank
  | (RerankFacts & TextOnWorker);

export interface NodeTarget {
  readonly servedName: string;
  /** Token limit for the answer, reduced to what fits into the context window. At least 1. Only chats use it. */
  readonly maxTokens: number;
  readonly seesImages?: boolean;
  /** Salt that separates the organisation's prompt cache from others on a shared node, if the engine supports salts. */
  readonly cacheSalt?: string | undefined;
}

/** Request that asks a node how many tokens a prompt has. */
export interface CountRequest {
  readonly path: string;
  readonly body: string | Uint8Array<ArrayBuffer>;
}

/** Prompt that the body worker holds. Every method rejects with `ClientGone` once the client has disconnected. */
export interface WorkerText {
  /** Resolves to the JSON body for a node. Rejects with `UnsupportedShapeError` if the dialect does not support a field. */
  nodeBody(dialect: Dialect, target: NodeTarget): Promise<Uint8Array<ArrayBuffer>>;
  /** Resolves to the request that counts the prompt's tokens, or to undefined if the node cannot count them. */
  countRequest(dialect: Dialect, servedName: string): Promise<CountRequest | undefined>;
}

/** Lower bound on the number of tokens in the prompt. May read the whole prompt. 0 if only the body worker has it. */
export function lowerTokenBound(asked: AskedRequest): number {
  if (asked.leastTokens !== undefined) return asked.leastTokens;
  return asked.kind === 'chat' && asked.workerText === undefined ? leastChatTokens(asked.body) : 0;
}

/** Hashes of the prompt's prefixes. Reads a bounded part of the prompt. Empty if only the body worker has the prompt. */
export function chatPrefixes(chat: AskedChat): readonly number[] {
  if (chat.prefixes !== undefined) return chat.prefixes;
  return chat.workerText === undefined ? hashPrefixes(chat.body, chat.cacheKey) : [];
}
