/**
 * A surface is one API as clients see it: the format of its requests and responses. Each surface has a folder below
 * data-plane/surfaces, and `surfaces/common` contains what the surfaces share. No surface may pass on anything that reveals
 * the engine or place that answered.
 */
import type { MemoryBudget } from '../../../shared/runtime/byte-budget.ts';
import type { WholeRequest } from './asked.ts';
import type { AnswerFacts } from './chat-parts.ts';
import type { KeptPaths } from './json-source.ts';
import type { StreamWriter } from './surface-stream.ts';
import type { Usage } from './usage.ts';

/** Request headers that affect the validation of a body, and the key with which the organisation's reasoning is encrypted. */
export interface ShapeHeaders {
  readonly contentType: string | undefined;
  readonly version: string | undefined;
  /** Key that encrypts reasoning for the caller's organisation, on surfaces that encrypt it. Does not come from a header. */
  readonly sealKey?: string | undefined;
}

/** Response for the client, rebuilt from a node's response. If its body is a string, the string is JSON already. */
export interface RebuiltBody<Body extends object | string = object> {
  readonly body: Body;
  readonly usage: Usage;
  /** Description of an unusual format in a complete response, or undefined if the format was as expected. */
  readonly oddForm?: string | undefined;
}

/** Converts one API's requests and responses. `Context` holds facts on a request, but no text, that its response needs. */
export interface ClientSurface<Context> {
  /** Paths to the JSON in a request that is passed on exactly as the client wrote it. */
  readonly carried: KeptPaths;
  /** Validates a request. Throws `UnsupportedShapeError` with a JSON path. `text` is the body's text, if it may be kept. */
  shape(
    body: Record<string, unknown>,
    headers: ShapeHeaders,
    text: string | undefined,
  ): { readonly asked: WholeRequest; readonly context: Context };
  /** Converts a node's complete response, parsed from JSON. Throws `NodeFailure` if the response is unusable. */
  whole(answer: unknown, facts: AnswerFacts, context: Context): RebuiltBody<object | string>;
  /** Creates the writer of a streamed response, which charges held text to `memory`. Undefined if the API never streams. */
  readonly stream: ((facts: AnswerFacts, context: Context, memory: MemoryBudget) => StreamWriter) | undefined;
}
