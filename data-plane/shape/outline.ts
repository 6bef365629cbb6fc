/**
 * The main thread's view of a request whose text the body worker retains: all that limits, routing and responses need,
 * and nothing that grows with the text. The worker renders the body for a node from the text.
 */
import type { Dialect } from '../../schemas/names.ts';
import type { MessagesRequest } from './anthropic.ts';
import type { ChatRequest, EmbeddingsRequest } from './openai.ts';
import { prefixesOf } from './prompt-prefix.ts';
import { leastChatTokens } from './prompt-size.ts';

export interface NodeTarget {
  /** What the node itself calls the model. */
  readonly servedName: string;
  /** Tokens of the answer at most, already clamped to the window; at least 1. Embeddings do not use it. */
  readonly maxTokens: number;
  /** The model is known to take images. */
  readonly seesImages?: boolean;
  /** On a shared node: of the tenant, for engines that take one. */
  readonly cacheSalt?: string | undefined;
}

/** A request to a node that counts the tokens of a prompt, ready to send. */
export interface CountRequest {
  readonly path: string;
  readonly body: string | Uint8Array<ArrayBuffer>;
}

/** A reference to a text that the body worker retains. Every method rejects with ClientGone once the client has left. */
export interface WorkerText {
  /** The body for a node, as JSON. Rejects with UnsupportedShapeError where the dialect cannot carry a field. */
  nodeBody(dialect: Dialect, target: NodeTarget): Promise<Uint8Array<ArrayBuffer>>;
  /** Undefined where the node cannot count tokens. */
  countRequest(dialect: Dialect, servedName: string): Promise<CountRequest | undefined>;
}

export interface ChatOutline extends Omit<ChatRequest, 'body' | 'workerText'> {
  readonly body: {
    readonly logprobs?: boolean;
    readonly response_format?: { readonly type: string };
  };
  readonly workerText: WorkerText;
}

export interface EmbeddingsOutline extends Omit<EmbeddingsRequest, 'body' | 'workerText'> {
  readonly workerText: WorkerText;
}

export interface MessagesOutline extends Omit<MessagesRequest, 'chat'> {
  readonly chat: ChatOutline;
}

export type AnyChat = ChatRequest | ChatOutline;
export type AnyEmbeddings = EmbeddingsRequest | EmbeddingsOutline;
export type AnyMessages = MessagesRequest | MessagesOutline;

/** Lower bound of a prompt in tokens. Reads all text of a chat whose text is here. */
export function leastTokensOf(request: AnyChat | AnyEmbeddings): number {
  if (request.leastTokens !== undefined) return request.leastTokens;
  return request.kind === 'chat' && request.workerText === undefined ? leastChatTokens(request.body) : 0;
}

/** Hashes of the prefixes of a prompt. Reads the text of a chat whose text is here, up to a bound. */
export function prefixesOfChat(chat: AnyChat): readonly number[] {
  if (chat.prefixes !== undefined) return chat.prefixes;
  return chat.workerText === undefined ? prefixesOf(chat.body, chat.cacheKey) : [];
}
