/**
 * An answer that is not streamed becomes ours, as the request's surface has it. What is needed of the request is plain
 * values, so that another thread can do it.
 */
import { type MessagesContext, messagesContext } from '../anthropic/message-parts.ts';
import { rebuildMessages } from '../anthropic/rebuild-messages.ts';
import type { AnyChat, AnyEmbeddings, AnyMessages } from '../request/outline.ts';
import { type ChatContext, chatContext } from './chat-parts.ts';
import { rebuildChat } from './rebuild-chat.ts';
import { type EmbeddingsContext, rebuildEmbeddings } from './rebuild-embeddings.ts';
import type { Usage } from './usage.ts';

export type Rebuilding =
  | { readonly kind: 'chat'; readonly context: ChatContext }
  | { readonly kind: 'messages'; readonly context: MessagesContext }
  | { readonly kind: 'embeddings'; readonly context: EmbeddingsContext };

export interface Rebuilt {
  readonly body: object;
  readonly usage: Usage;
}

/** `id`, `createdSeconds`: of our answer. */
export function rebuildingOf(
  request: AnyChat | AnyEmbeddings | AnyMessages,
  id: string,
  createdSeconds: number,
): Rebuilding {
  switch (request.kind) {
    case 'chat':
      return { kind: 'chat', context: chatContext(request, id, createdSeconds) };
    case 'messages':
      return { kind: 'messages', context: messagesContext(request, id, createdSeconds) };
    case 'embeddings': {
      const { model, inputs, encoding, dimensions, textBytes } = request;
      const context = { model, inputs, encoding, textBytes };
      return { kind: 'embeddings', context: dimensions === undefined ? context : { ...context, dimensions } };
    }
    default:
      return request satisfies never;
  }
}

/** `answer`: the node's body as parsed. Throws NodeFailure. */
export function rebuild(answer: unknown, { kind, context }: Rebuilding): Rebuilt {
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
