/**
 * The body of an operation becomes a request. Which shape it must have follows from the path alone, never from the stack,
 * so that it reveals nothing of one (design: shape).
 */

import type { Operation } from '../../shared/decision/admission.ts';
import { Refusal } from '../../shared/decision/refusal.ts';
import type { RoutingFacts } from '../../shared/decision/route.ts';
import type { JsonText } from '../core/json-text.ts';
import { type MessagesRequest, shapeCountTokens, shapeMessages } from './anthropic.ts';
import { type ChatRequest, type EmbeddingsRequest, shapeChat, shapeEmbeddings } from './openai.ts';
import type { AnyChat, AnyEmbeddings, AnyMessages } from './outline.ts';

interface ShapedInto<Forwarded, Inner> {
  /** What the node is to answer, and the form of the answer; undefined where only tokens are counted. */
  readonly forwarded: Forwarded | undefined;
  /** What limits, routing and counting read. */
  readonly inner: Inner;
  readonly model: string;
  readonly stream: boolean;
  readonly surface: RoutingFacts['surface'];
  /** Tokens of the answer that are asked for; 0 where there is none, undefined where the request does not limit them. */
  readonly maxTokens: number | undefined;
}

/** A request that was understood, whatever the surface it came by; its text is here or on another thread. */
export type Shaped = ShapedInto<AnyChat | AnyEmbeddings | AnyMessages, AnyChat | AnyEmbeddings>;
/** One whose text is here. */
export type WholeShaped = ShapedInto<
  ChatRequest | EmbeddingsRequest | MessagesRequest,
  ChatRequest | EmbeddingsRequest
>;

export interface ShapeHeaders {
  readonly contentType: string | undefined;
  readonly version: string | undefined;
  readonly beta: string | undefined;
}

/** Throws UnsupportedShapeError naming the JSON path. */
export function shapeOperation(
  operation: Operation,
  bytes: Buffer | JsonText,
  headers: ShapeHeaders,
): WholeShaped {
  const { contentType, version, beta } = headers;
  switch (operation.kind) {
    case 'chat': {
      const chat = shapeChat(bytes, contentType);
      return {
        forwarded: chat,
        inner: chat,
        model: chat.model,
        stream: chat.stream,
        surface: 'openai',
        maxTokens: chat.maxTokens,
      };
    }
    case 'embeddings': {
      const embeddings = shapeEmbeddings(bytes, contentType);
      return {
        forwarded: embeddings,
        inner: embeddings,
        model: embeddings.model,
        stream: false,
        surface: 'any',
        maxTokens: 0,
      };
    }
    case 'messages': {
      const messages = shapeMessages(bytes, contentType, { version, beta });
      const { chat, model, stream } = messages;
      return {
        forwarded: messages,
        inner: chat,
        model,
        stream,
        surface: 'anthropic',
        maxTokens: chat.maxTokens,
      };
    }
    case 'count-tokens': {
      const { chat, model } = shapeCountTokens(bytes, contentType, { version, beta });
      return { forwarded: undefined, inner: chat, model, stream: false, surface: 'anthropic', maxTokens: 0 };
    }
    case 'models':
    case 'model':
    case 'unknown':
      throw new Refusal('no such path', 'There is nothing at this path.');
    default:
      return operation satisfies never;
  }
}
