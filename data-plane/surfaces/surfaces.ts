/**
 * Table of all surfaces, the APIs that clients can use. The folder `data-plane/surfaces` validates requests and rebuilds
 * responses. Validation does not depend on the stack, so a refusal of a body never reveals whether the stack exists.
 */
import type { Operation } from '../../shared/decision/admission.ts';
import { Refusal } from '../../shared/decision/refusal.ts';
import type { MemoryBudget } from '../../shared/runtime/byte-budget.ts';
import { ChatWriter } from './chat/chat-stream.ts';
import { rebuildChat } from './chat/rebuild-chat.ts';
import { type ChatContext, shapeChat } from './chat/shape-chat.ts';
import type { AskedRequest, WholeRequest } from './common/asked.ts';
import type { AnswerFacts } from './common/chat-parts.ts';
import { parseBody } from './common/json-body.ts';
import type { JsonText } from './common/json-text.ts';
import type { ClientSurface, RebuiltBody, ShapeHeaders } from './common/surface.ts';
import { SurfaceStream } from './common/surface-stream.ts';
import { rebuildEmbeddings } from './embeddings/rebuild-embeddings.ts';
import { type EmbeddingsContext, shapeEmbeddings } from './embeddings/shape-embeddings.ts';
import { MessagesWriter } from './messages/messages-stream.ts';
import { rebuildMessages } from './messages/rebuild-messages.ts';
import { type MessagesContext, shapeCountTokens, shapeMessages } from './messages/shape-messages.ts';
import { rebuildRerank } from './rerank/rebuild-rerank.ts';
import { type RerankContext, shapeRerank } from './rerank/shape-rerank.ts';
import { rebuildResponses } from './responses/rebuild-responses.ts';
import { ResponsesWriter } from './responses/responses-stream.ts';
import { type ResponsesContext, shapeResponses } from './responses/shape-responses.ts';

const row = <Context>(surface: ClientSurface<Context>): ClientSurface<Context> => surface;

const surfaces = {
  chat: row<ChatContext>({
    carried: {
      tools: { '*': { function: { parameters: 'kept' } } },
      response_format: { json_schema: { schema: 'kept' } },
      logit_bias: 'kept',
    },
    shape: shapeChat,
    whole: rebuildChat,
    stream: (facts, context) => new ChatWriter(facts, context),
  }),
  embeddings: row<EmbeddingsContext>({
    carried: {},
    shape: shapeEmbeddings,
    whole: rebuildEmbeddings,
    stream: undefined,
  }),
  messages: row<MessagesContext>({
    carried: {
      messages: { '*': { content: { '*': { input: 'kept' } } } },
      tools: { '*': { input_schema: 'kept' } },
      output_config: { format: { schema: 'kept' } },
    },
    shape: shapeMessages,
    whole: rebuildMessages,
    stream: (facts, context, memory) => new MessagesWriter(facts, context, memory),
  }),
  rerank: row<RerankContext>({
    carried: {},
    shape: shapeRerank,
    whole: rebuildRerank,
    stream: undefined,
  }),
  responses: row<ResponsesContext>({
    carried: {
      tools: { '*': { parameters: 'kept', tools: { '*': { parameters: 'kept' } } } },
      text: { format: { schema: 'kept' } },
      metadata: 'kept',
    },
    shape: shapeResponses,
    whole: rebuildResponses,
    stream: (facts, context, memory) => new ResponsesWriter(facts, context, memory),
  }),
};

export type SurfaceName = keyof typeof surfaces;
type SurfaceContext<One> = One extends ClientSurface<infer Context> ? Context : never;

/** The API of a request, and facts that determine the form of its response. They are plain, so a worker can receive them. */
export type AnswerForm = {
  [Name in SurfaceName]: {
    readonly surface: Name;
    readonly context: SurfaceContext<(typeof surfaces)[Name]>;
  };
}[SurfaceName];

/** A validated request, whose text may be held by the body worker. */
export interface ValidRequest {
  /** The request in the form that all APIs share, from which limits, routing, counting and the node's body are derived. */
  readonly asked: AskedRequest;
  /** Form of the response, or undefined if the request only counts tokens. */
  readonly form: AnswerForm | undefined;
}

export interface WholeValidRequest extends ValidRequest {
  readonly asked: WholeRequest;
}

/** Validates a request by the API that it uses. Throws `UnsupportedShapeError` with a JSON path. */
export function shapeOperation(
  { kind }: Operation,
  bytes: Buffer | JsonText,
  headers: ShapeHeaders,
): WholeValidRequest {
  switch (kind) {
    case 'chat':
    case 'embeddings':
    case 'messages':
    case 'rerank':
    case 'responses': {
      const { shape, carried } = surfaces[kind];
      // Keep no text here for a large body, because the thread that parses it would then hold the text twice.
      const text = 'counts' in bytes ? bytes.text : undefined;
      const { asked, context } = shape(parseBody(bytes, headers.contentType, carried), headers, text);
      return { asked, form: { surface: kind, context } as AnswerForm };
    }
    case 'count-tokens': {
      const { carried } = surfaces.messages;
      const asked = shapeCountTokens(parseBody(bytes, headers.contentType, carried), headers);
      return { asked, form: undefined };
    }
    case 'models':
    case 'model':
    case 'unknown':
      throw new Refusal('no such path', 'No endpoint has this method and path.');
    default:
      return kind satisfies never;
  }
}

/** Converts a node's parsed response to the JSON for the client. Throws `NodeFailure` if the response is unusable. */
export function wholeAnswer(
  answer: unknown,
  facts: AnswerFacts,
  { surface, context }: AnswerForm,
): RebuiltBody<string> {
  // The types ensure that surface and context belong together, but TypeScript cannot express that for a union of functions.
  const { body, ...rest } = surfaces[surface].whole(answer, facts, context as never);
  return { body: typeof body === 'string' ? body : JSON.stringify(body), ...rest };
}

export function streamedAnswer(
  facts: AnswerFacts,
  { surface, context }: AnswerForm,
  memory: MemoryBudget,
): SurfaceStream {
  const { stream } = surfaces[surface];
  if (stream === undefined) throw new Error(`${surface} have no streams`);
  return new SurfaceStream(facts, stream(facts, context as never, memory));
}
