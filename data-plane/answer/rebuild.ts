/**
 * Converts a node's response that is not streamed into the response for the client, in the API surface of the request. The
 * context holds plain values only, so that it can be transferred to the body worker.
 */

import type { AnyChat, AnyEmbeddings, AnyMessages } from '../shape/outline.ts';
import { type ChatContext, chatContext } from './chat-parts.ts';
import { type MessagesContext, messagesContext } from './message-parts.ts';
import { rebuildChat } from './rebuild-chat.ts';
import { type EmbeddingsContext, rebuildEmbeddings } from './rebuild-embeddings.ts';
import { rebuildMessages } from './rebuild-messages.ts';
import type { AnsweringNode, Usage } from './usage.ts';

export type RebuildContext =
  | { readonly kind: 'chat'; readonly context: ChatContext }
  | { readonly kind: 'messages'; readonly context: MessagesContext }
  | { readonly kind: 'embeddings'; readonly context: EmbeddingsContext };

export interface RebuiltBody {
  readonly body: object;
  readonly usage: Usage;
}

/** `unique`, `createdSeconds`: of the response to the client. */
export function rebuildContextOf(
  request: AnyChat | AnyEmbeddings | AnyMessages,
  unique: string,
  createdSeconds: number,
  node: AnsweringNode,
): RebuildContext {
  switch (request.kind) {
    case 'chat':
      return { kind: 'chat', context: chatContext(request, unique, createdSeconds, node) };
    case 'messages':
      return { kind: 'messages', context: messagesContext(request, unique, createdSeconds, node) };
    case 'embeddings': {
      const { model, inputs, encoding, dimensions, textBytes } = request;
      const context = { model, inputs, encoding, textBytes };
      return { kind: 'embeddings', context: dimensions === undefined ? context : { ...context, dimensions } };
    }
    default:
      return request satisfies never;
  }
}

/** `answer`: the parsed body of the node. Throws NodeFailure. */
export function rebuild(answer: unknown, { kind, context }: RebuildContext): RebuiltBody {
  switch (kind) {
    case 'chat':
      return rebuildChat(answer, context);
    case 'messages':
      return rebuildMessages(answer, context);
    case 'embeddings':
      return rebuildEmbeddings(answer, context);
    default:
      return kind satisfies never;
  }
}
