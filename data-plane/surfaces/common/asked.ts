/**
 * What a node is asked, whichever surface the request came by: a chat, embeddings or scores of documents. Its facts are plain values whose size does
 * not grow with the text: all that limits, routing and the answer need. The text is here, or the body worker retains it and
 * renders the body for a node from it.
 */
import type { ChatSettings } from '../../../schemas/api/chat-fields.ts';
import type { ChatFields, EmbeddingsFields } from '../../../schemas/api/openai.ts';
import type { RerankFields } from '../../../schemas/api/rerank.ts';
import type { Dialect } from '../../../schemas/names.ts';
import { prefixesOf } from './prompt-prefix.ts';
import { leastChatTokens, type PromptSize } from './prompt-size.ts';

/** What a chat needs of its node beyond settings; a dialect honours, maps or refuses each. */
export type ChatNeed = 'images' | 'prefill' | 'single_tool_call' | 'tools';

/** What a node is sent in the words of the chat completion's shape, much as it came. */
export type ChatBody = Readonly<Pick<ChatFields, 'messages' | 'tools' | 'tool_choice'>> & ChatSettings;

/** Documents as texts, whichever form they came in. */
export interface RerankBody extends Readonly<Pick<RerankFields, 'query'>> {
  readonly documents: readonly string[];
}

export interface ChatFacts extends PromptSize {
  readonly kind: 'chat';
  readonly model: string;
  readonly stream: boolean;
  /** Tokens of the answer at most, where the client limits them; at least 1, or 0 where no answer is wanted. */
  readonly maxTokens: number | undefined;
  /** Answers wanted (`n`). */
  readonly choices: number;
  readonly logprobs: boolean;
  /** The answer must follow a JSON schema. */
  readonly hasSchema: boolean;
  readonly needs: readonly ChatNeed[];
  /** Where the caller's own body has these, if that is another place than in a chat completion. */
  readonly paths?: Readonly<Partial<Record<ChatNeed | keyof ChatBody, readonly PropertyKey[]>>>;
  /** What the client says prompts have in common. */
  readonly cacheKey?: string;
  /** Hashes of the prompt's prefixes, from short to long. Otherwise worked out by `prefixesOfChat`: one node needs no choice. */
  readonly prefixes?: readonly number[];
  /** The answer begins with the tokens of the prompt, where the engine can report them then. */
  readonly usageAtStart?: true;
}

export interface EmbeddingsFacts extends PromptSize {
  readonly kind: 'embeddings';
  readonly model: string;
  /** Embeddings come whole, and no tokens are generated. */
  readonly stream: false;
  readonly maxTokens: 0;
  /** Vectors that the answer must have. */
  readonly inputs: number;
  /** What the answer must hold; `float` unless asked otherwise. */
  readonly encoding: 'float' | 'base64';
  readonly dimensions?: number;
  /** The input is token ids, not text. */
  readonly tokenInput: boolean;
}

export interface RerankFacts extends PromptSize {
  readonly kind: 'rerank';
  readonly model: string;
  /** Scores come whole, and no tokens are generated. */
  readonly stream: false;
  readonly maxTokens: 0;
  /** Documents, each of which has a score in the answer. */
  readonly inputs: number;
}

export type AskedFacts = ChatFacts | EmbeddingsFacts | RerankFacts;

/** Where a node is asked; the same on all engines. */
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

/** What a node may be sent as the client wrote it. To write it once more costs as much as to parse it. */
export interface ChatSource {
  /** Undefined once a node has the request. */
  messages: string | undefined;
}

export type WholeChat = ChatFacts & TextHere<ChatBody> & { readonly source?: ChatSource | undefined };
export type WholeEmbeddings = EmbeddingsFacts & TextHere<Readonly<Pick<EmbeddingsFields, 'input'>>>;
export type WholeRerank = RerankFacts & TextHere<RerankBody>;
export type WholeAsked = WholeChat | WholeEmbeddings | WholeRerank;

export type AskedChat = WholeChat | (ChatFacts & TextOnWorker);
export type AskedRequest =
  | AskedChat
  | WholeEmbeddings
  | (EmbeddingsFacts & TextOnWorker)
  | WholeRerank
  | (RerankFacts & TextOnWorker);

export interface NodeTarget {
  /** What the node itself calls the model. */
  readonly servedName: string;
  /** Tokens of the answer at most, already clamped to the window; at least 1. Only a chat uses it. */
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

/** Lower bound of a prompt in tokens. Reads all text of a chat whose text is here. */
export function leastTokensOf(asked: AskedRequest): number {
  if (asked.leastTokens !== undefined) return asked.leastTokens;
  return asked.kind === 'chat' && asked.workerText === undefined ? leastChatTokens(asked.body) : 0;
}

/** Hashes of the prefixes of a prompt. Reads the text of a chat whose text is here, up to a bound. */
export function prefixesOfChat(chat: AskedChat): readonly number[] {
  if (chat.prefixes !== undefined) return chat.prefixes;
  return chat.workerText === undefined ? prefixesOf(chat.body, chat.cacheKey) : [];
}
