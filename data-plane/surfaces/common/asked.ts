/**
 * Request to a node, independent of its surface: a chat, embeddings or scores of documents. Its facts are plain values whose
 * size does not grow with the text, and suffice for limits, routing and the answer. This object contains the text, or the
 * body worker keeps it and renders the node's body from it.
 */
import type { ChatSettings } from '../../../schemas/api/chat-fields.ts';
import type { ChatFields, EmbeddingsFields } from '../../../schemas/api/openai.ts';
import type { RerankFields } from '../../../schemas/api/rerank.ts';
import type { Dialect } from '../../../schemas/names.ts';
import { hashPrefixes } from './prompt-prefix.ts';
import { leastChatTokens, type PromptSize } from './prompt-size.ts';

/** Capability that a chat needs from its node besides settings. Each dialect supports, maps or refuses it. */
export type ChatNeed = 'images' | 'prefill' | 'single_tool_call' | 'tools';

/** Parts of a node's body in the format of chat completions, mostly as the client sent them. */
export type ChatBody = Readonly<Pick<ChatFields, 'messages' | 'tools' | 'tool_choice'>> & ChatSettings;

/** Documents as texts, whatever form the client used. */
export interface RerankBody extends Readonly<Pick<RerankFields, 'query'>> {
  readonly documents: readonly string[];
}

export interface ChatFacts extends PromptSize {
  readonly kind: 'chat';
  readonly model: string;
  readonly stream: boolean;
  /** Maximum number of answer tokens, if the client limits it. At least 1, or 0 if no answer is wanted. */
  readonly maxTokens: number | undefined;
  /** Number of requested answers (`n`). */
  readonly choices: number;
  readonly logprobs: boolean;
  /** Whether the answer must follow a JSON schema. */
  readonly hasSchema: boolean;
  readonly needs: readonly ChatNeed[];
  /** Paths in the caller's own body, for fields that are not where a chat completion has them. */
  readonly paths?: Readonly<Partial<Record<ChatNeed | keyof ChatBody, readonly PropertyKey[]>>>;
  /** Hint of the client that identifies prompts with a common prefix. */
  readonly cacheKey?: string;
  /** Hashes of the prompt's prefixes, from short to long. If absent, `chatPrefixes` computes them on demand. */
  readonly prefixes?: readonly number[];
  /** Whether the answer begins with the prompt's token count, if the engine can report it then. */
  readonly usageAtStart?: true;
}

export interface EmbeddingsFacts extends PromptSize {
  readonly kind: 'embeddings';
  readonly model: string;
  /** Embeddings are never streamed, and no tokens are generated. */
  readonly stream: false;
  readonly maxTokens: 0;
  /** Number of vectors that the answer must contain. */
  readonly inputs: number;
  /** Encoding of the vectors in the answer. Defaults to `float`. */
  readonly encoding: 'float' | 'base64';
  readonly dimensions?: number;
  /** Whether the input consists of token ids rather than text. */
  readonly tokenInput: boolean;
}

export interface RerankFacts extends PromptSize {
  readonly kind: 'rerank';
  readonly model: string;
  /** Scores are never streamed, and no tokens are generated. */
  readonly stream: false;
  readonly maxTokens: 0;
  /** Number of documents, each of which gets a score. */
  readonly inputs: number;
}

export type AskedFacts = ChatFacts | EmbeddingsFacts | RerankFacts;

/** Paths on a node, the same for all engines. */
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

/** Parts of the client's text that may be sent to a node unchanged. Writing them again would cost as much as parsing them. */
export interface ChatSource {
  /** Undefined once a node has received the request. */
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
  /** Name of the model on the node. */
  readonly servedName: string;
  /** Maximum number of answer tokens, already clamped to the window. At least 1. Used by chats only. */
  readonly maxTokens: number;
  /** Whether the model is known to accept images. */
  readonly seesImages?: boolean;
  /** Salt of the tenant's prompt cache on a shared node, for engines that support one. */
  readonly cacheSalt?: string | undefined;
}

/** Request that makes a node count the tokens of a prompt. */
export interface CountRequest {
  readonly path: string;
  readonly body: string | Uint8Array<ArrayBuffer>;
}

/** Reference to a text that the body worker keeps. Every method rejects with ClientGone once the client has left. */
export interface WorkerText {
  /** JSON body for a node. Rejects with UnsupportedShapeError if the dialect does not support a field. */
  nodeBody(dialect: Dialect, target: NodeTarget): Promise<Uint8Array<ArrayBuffer>>;
  /** Resolves to undefined if the node cannot count tokens. */
  countRequest(dialect: Dialect, servedName: string): Promise<CountRequest | undefined>;
}

/** Lower bound of the prompt's tokens. Reads the whole text of a chat whose text is in this object. */
export function lowerTokenBound(asked: AskedRequest): number {
  if (asked.leastTokens !== undefined) return asked.leastTokens;
  return asked.kind === 'chat' && asked.workerText === undefined ? leastChatTokens(asked.body) : 0;
}

/** Hashes of the prompt's prefixes. Reads the text of a chat whose text is in this object, up to a bound. */
export function chatPrefixes(chat: AskedChat): readonly number[] {
  if (chat.prefixes !== undefined) return chat.prefixes;
  return chat.workerText === undefined ? hashPrefixes(chat.body, chat.cacheKey) : [];
}
