/**
 * A surface: one API as clients see it, the form of its requests and of its answers. What a node is asked and how its answer is
 * read is the same for all of them. Each is a folder below data-plane/surfaces.
 */
import type { MemoryBudget } from '../../../shared/runtime/byte-budget.ts';
import type { WholeAsked } from './asked.ts';
import type { AnswerFacts } from './chat-parts.ts';
import type { KeptPaths } from './json-source.ts';
import type { StreamWriter } from './surface-stream.ts';
import type { Usage } from './usage.ts';

/** The headers that a shape depends on. */
export interface ShapeHeaders {
  readonly contentType: string | undefined;
  readonly version: string | undefined;
  /** Not of the headers: the key under which thoughts of the caller's organisation are sealed, where the surface seals any. */
  readonly sealKey?: string | undefined;
}

/** A body that is a string is already JSON. */
export interface RebuiltBody<Body extends object | string = object> {
  readonly body: Body;
  readonly usage: Usage;
  /** Describes an unusual form in an otherwise complete answer; undefined if there is none. */
  readonly oddForm?: string | undefined;
}

/** `Context`: what its answers need to know of a request; plain values, whose size does not grow with the body. */
export interface ClientSurface<Context> {
  /** Paths in its requests to JSON that is passed on as written. */
  readonly carried: KeptPaths;
  /** Throws UnsupportedShapeError naming the JSON path, never a value. `text`: what the body was parsed from, if it may be kept. */
  shape(
    body: Record<string, unknown>,
    headers: ShapeHeaders,
    text: string | undefined,
  ): { readonly asked: WholeAsked; readonly context: Context };
  /** A node's answer that is not streamed, as parsed. Throws NodeFailure. */
  whole(answer: unknown, facts: AnswerFacts, context: Context): RebuiltBody<object | string>;
  /** Undefined where no answer is streamed. `memory`: charged for what is held of it. */
  readonly stream: ((facts: AnswerFacts, context: Context, memory: MemoryBudget) => StreamWriter) | undefined;
}
