/**
 * All surfaces: an operation selects a request's, the required form an answer's. The room `data-plane/surfaces` validates
 * requests and rebuilds answers. The expected body never depends on the stack, so it does not reveal whether one exists.
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

/** A surface with the context of one of its requests. Plain values, so that they can be sent to the body worker. */
export type AnswerForm = {
  [Name in SurfaceName]: {
    readonly surface: Name;
    readonly context: SurfaceContext<(typeof surfaces)[Name]>;
  };
}[SurfaceName];

/** A validated request. */
export interface ValidRequest {
  /** Request to a node, which limits, routing and counting also read. */
  readonly asked: AskedRequest;
  /** Undefined if only tokens are counted. */
  readonly form: AnswerForm | undefined;
}

/** Validated request that contains its text. */
export interface WholeValidRequest extends ValidRequest {
  readonly asked: WholeRequest;
}

/** Throws UnsupportedShapeError that names the JSON path. */
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
      // Leave the text out for large bodies, because their thread would store it twice.
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
      throw new Refusal('no such path', 'There is nothing at this path.');
    default:
      return kind satisfies never;
  }
}

/** Converts a node's parsed body to the client's answer as JSON. Throws NodeFailure. */
export function wholeAnswer(
  answer: unknown,
  facts: AnswerFacts,
  { surface, context }: AnswerForm,
): RebuiltBody<string> {
  // Surface and context belong together. The pair's type states that, but a union of functions cannot.
  const { body, ...rest } = surfaces[surface].whole(answer, facts, context as never);
  return { body: typeof body === 'string' ? body : JSON.stringify(body), ...rest };
}

/** Creates the stream of an answer to a streaming request. */
export function streamedAnswer(
  facts: AnswerFacts,
  { surface, context }: AnswerForm,
  memory: MemoryBudget,
): SurfaceStream {
  const { stream } = surfaces[surface];
  if (stream === undefined) throw new Error(`${surface} have no streams`);
  return new SurfaceStream(facts, stream(facts, context as never, memory));
}
