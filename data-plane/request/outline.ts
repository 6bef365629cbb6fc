/**
 * What is kept of a request whose text another thread holds: all that limits, routing and answers look at, and nothing that
 * grows with the text. The thread that holds the text makes the body for a node of it.
 */
import type { Dialect } from '../../schemas/names.ts';
import type { MessagesRequest } from '../anthropic/shape.ts';
import type { NodeTarget } from '../dialect/to-node-body.ts';
import type { ChatRequest, EmbeddingsRequest } from './shape.ts';

/** A question to a node, ready to be sent. */
export interface CountQuestion {
  readonly path: string;
  readonly body: string | Uint8Array<ArrayBuffer>;
}

/** The text of one request, on the thread that holds it. Each of these rejects with ClientGone once the client left. */
export interface HeldText {
  /** The body for a node, as JSON. Rejects with UnsupportedShapeError where the dialect cannot carry a field. */
  nodeBody(dialect: Dialect, target: NodeTarget): Promise<Uint8Array<ArrayBuffer>>;
  /** How the node is asked for the tokens of the prompt; undefined where it cannot be. */
  countQuestion(dialect: Dialect, servedName: string): Promise<CountQuestion | undefined>;
}

export interface ChatOutline extends Omit<ChatRequest, 'body' | 'held'> {
  readonly body: {
    readonly logprobs?: boolean;
    readonly response_format?: { readonly type: string };
  };
  readonly held: HeldText;
}

export interface EmbeddingsOutline extends Omit<EmbeddingsRequest, 'body' | 'held'> {
  readonly held: HeldText;
}

export interface MessagesOutline extends Omit<MessagesRequest, 'chat'> {
  readonly chat: ChatOutline;
}

export type AnyChat = ChatRequest | ChatOutline;
export type AnyEmbeddings = EmbeddingsRequest | EmbeddingsOutline;
export type AnyMessages = MessagesRequest | MessagesOutline;
