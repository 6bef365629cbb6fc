/**
 * Splits a shaped request in two: the outline, which is transferred to the main thread, and the text, which the worker
 * retains.
 */
import { pathOfImage } from '../dialect/node-body.ts';
import type { ChatRequest, EmbeddingsRequest } from '../shape/openai.ts';
import type { ChatOutline, EmbeddingsOutline, MessagesOutline, WorkerText } from '../shape/outline.ts';
import { prefixesOf } from '../shape/prompt-prefix.ts';
import { leastChatTokens } from '../shape/prompt-size.ts';
import type { Shaped, WholeShaped } from '../shape/shape-operation.ts';

/** What is transferred: plain values, whose size does not grow with the body. */
export interface RequestOutline extends Pick<Shaped, 'model' | 'stream' | 'surface' | 'maxTokens'> {
  readonly inner: Omit<ChatOutline, 'workerText'> | Omit<EmbeddingsOutline, 'workerText'>;
  /**
   * What is forwarded: a message without its chat, or `inner` itself; undefined where the request
   * only counts tokens.
   */
  readonly forwarded: Omit<MessagesOutline, 'chat'> | 'inner' | undefined;
}

/** The node gets longer ones too, but a response that stops at one of them does not name it. */
const stopSequenceCharactersMax = 1024;

/** Called on the worker. */
export function outlineOf({ forwarded, inner, ...rest }: WholeShaped): RequestOutline {
  const { model, stream, surface, maxTokens } = rest;
  return {
    model,
    stream,
    surface,
    maxTokens,
    inner: inner.kind === 'chat' ? chatOutline(inner) : embeddingsOutline(inner),
    forwarded: forwardedOf(forwarded),
  };
}

/** Called on the main thread: joins the outline with the reference to its text. */
export function withText({ inner, forwarded, ...rest }: RequestOutline, workerText: WorkerText): Shaped {
  if (inner.kind === 'embeddings') {
    const embeddings: EmbeddingsOutline = { ...inner, workerText };
    return { ...rest, inner: embeddings, forwarded: embeddings };
  }
  const chat: ChatOutline = { ...inner, workerText };
  if (forwarded === undefined) return { ...rest, inner: chat, forwarded: undefined };
  return { ...rest, inner: chat, forwarded: forwarded === 'inner' ? chat : { ...forwarded, chat } };
}

function forwardedOf(forwarded: WholeShaped['forwarded']): RequestOutline['forwarded'] {
  if (forwarded?.kind !== 'messages') return forwarded && 'inner';
  const { chat: _, stopSequences, ...message } = forwarded;
  return {
    ...message,
    stopSequences: stopSequences.filter(({ length }) => length <= stopSequenceCharactersMax),
  };
}

function chatOutline({
  body,
  cacheKey,
  workerText: _,
  ...rest
}: ChatRequest): Omit<ChatOutline, 'workerText'> {
  const { logprobs, response_format: format } = body;
  const images = rest.needs.includes('images') ? { images: pathOfImage(body) } : {};
  return {
    ...rest,
    leastTokens: leastChatTokens(body),
    prefixes: prefixesOf(body, cacheKey),
    paths: { ...images, ...rest.paths },
    body: {
      ...(logprobs === undefined ? {} : { logprobs }),
      ...(format === undefined ? {} : { response_format: { type: format.type } }),
    },
  };
}

function embeddingsOutline({
  body: _body,
  workerText: _workerText,
  ...rest
}: EmbeddingsRequest): Omit<EmbeddingsOutline, 'workerText'> {
  return rest;
}
