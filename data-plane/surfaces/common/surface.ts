/**
 * A surface is one API as clients see it: the format of its requests and answers. Each has a folder below
 * data-plane/surfaces. The room `surfaces/common` contains what they share, such as the request to a node. It must never let
 * anything through that reveals the engine or the place that answered.
 */
import type { MemoryBudget } from '../../../shared/runtime/byte-budget.ts';
import type { WholeRequest } from './asked.ts';
import type { AnswerFacts } from './chat-parts.ts';
import type { KeptPaths } from './json-source.ts';
import type { StreamWriter } from './surface-stream.ts';
import type { Usage } from './usage.ts';

/** Headers that a schema depends on. */
export interface ShapeHeaders {
  readonly contentType: string | undefined;
  readonly version: string | undefined;
  /** Not a header: key that seals the reasoning of the caller's organisation, if the surface seals any. */
  readonly sealKey?: string | undefined;
}

/** Answer for the client. A string is already JSON. */
export interface RebuiltBody<Body extends object | string = object> {
  readonly body: Body;
  readonly usage: Usage;
  /** Describes an unusual format in an otherwise complete answer. undefined if there is none. */
  readonly oddForm?: string | undefined;
}

/** Converts one surface's requests and answers. `Context` contains an answer's facts, without the text of the body. */
export interface ClientSurface<Context> {
  /** Paths in its requests to JSON that is passed on as written. */
  readonly carried: KeptPaths;
  /** Validates a request. Throws UnsupportedShapeError, with a JSON path. `text` is the body's text if it may be kept. */
  shape(
    body: Record<string, unknown>,
    headers: ShapeHeaders,
    text: string | undefined,
  ): { readonly asked: WholeRequest; readonly context: Context };
  /** Converts a node's parsed answer that is not streamed. Throws NodeFailure. */
  whole(answer: unknown, facts: AnswerFacts, context: Context): RebuiltBody<object | string>;
  /** Creates the writer of a streamed answer. undefined if the surface does not stream. Held text is charged to `memory`. */
  readonly stream: ((facts: AnswerFacts, context: Context, memory: MemoryBudget) => StreamWriter) | undefined;
}
