/**
 * A shaped request in two: the outline, which crosses to the thread of requests, and the text, which stays where it is.
 */
import { pathOfImage } from '../dialect/to-node-body.ts';
import type { ChatOutline, EmbeddingsOutline, HeldText, MessagesOutline } from '../request/outline.ts';
import type { ChatRequest, EmbeddingsRequest } from '../request/shape.ts';
import type { Shaped, WholeShaped } from '../request/shape-operation.ts';

/** What crosses: plain values, whose size does not go by that of the body. */
export interface Outlined extends Pick<Shaped, 'model' | 'stream' | 'path' | 'maxTokens'> {
  readonly inner: Omit<ChatOutline, 'held'> | Omit<EmbeddingsOutline, 'held'>;
  /** What the answer is dressed as; undefined where only tokens are counted. */
  readonly dress: Omit<MessagesOutline, 'chat'> | 'none' | undefined;
}

/** The node is sent longer ones too, but an answer that ends by one does not name it. */
const stopSequenceCharactersMax = 1024;

/** On the thread that holds the text. */
export function outline({ forwarded, inner, ...rest }: WholeShaped): Outlined {
  const { model, stream, path, maxTokens } = rest;
  return {
    model,
    stream,
    path,
    maxTokens,
    inner: inner.kind === 'chat' ? chatOutline(inner) : embeddingsOutline(inner),
    dress: dressOf(forwarded),
  };
}

/** On the thread of requests. */
export function withText({ inner, dress, ...rest }: Outlined, held: HeldText): Shaped {
  if (inner.kind === 'embeddings') {
    const embeddings: EmbeddingsOutline = { ...inner, held };
    return { ...rest, inner: embeddings, forwarded: embeddings };
  }
  const chat: ChatOutline = { ...inner, held };
  if (dress === undefined) return { ...rest, inner: chat, forwarded: undefined };
  return { ...rest, inner: chat, forwarded: dress === 'none' ? chat : { ...dress, chat } };
}

function dressOf(forwarded: WholeShaped['forwarded']): Outlined['dress'] {
  if (forwarded?.kind !== 'messages') return forwarded && 'none';
  const { chat: _, stopSequences, ...dress } = forwarded;
  return {
    ...dress,
    stopSequences: stopSequences.filter(({ length }) => length <= stopSequenceCharactersMax),
  };
}

function chatOutline({ body, held: _, ...rest }: ChatRequest): Omit<ChatOutline, 'held'> {
  const { logprobs, response_format: format } = body;
  const images = rest.needs.includes('images') ? { images: pathOfImage(body) } : {};
  return {
    ...rest,
    needPaths: { ...images, ...rest.needPaths },
    body: {
      ...(logprobs === undefined ? {} : { logprobs }),
      ...(format === undefined ? {} : { response_format: { type: format.type } }),
    },
  };
}

function embeddingsOutline({
  body: _body,
  held: _held,
  ...rest
}: EmbeddingsRequest): Omit<EmbeddingsOutline, 'held'> {
  return rest;
}
