/**
 * A surface: one API as clients see it, the form of its requests and of its answers. What a node is asked and how its answer is
 * read is the same for all of them. Each is a folder below data-plane/surfaces.
 */
import type { RoutingFacts } from '../../shared/decision/route.ts';
import type { MemoryBudget } from '../../shared/runtime/byte-budget.ts';
import type { KeptPaths } from '../core/json-source.ts';
import type { WholeAsked } from '../shape/asked.ts';
import type { AnswerFacts } from './chat-parts.ts';
import type { StreamWriter } from './surface-stream.ts';
import type { Usage } from './usage.ts';

/** The headers that a shape depends on. */
export interface ShapeHeaders {
  readonly contentType: string | undefined;
  readonly version: string | undefined;
  /** Not of the headers: the key under which thoughts of the caller's organisation are sealed, where the surface seals any. */
  readonly sealKey?: string | undefined;
}

/** A text is JSON already. */
export interface RebuiltBody<Body extends object | string = object> {
  readonly body: Body;
  readonly usage: Usage;
  /** Describes what no other engine answers, although the answer is complete; undefined if there is nothing odd. */
  readonly oddForm?: string | undefined;
}

/** `Context`: what its answers need to know of a request; plain values, whose size does not grow with the body. */
export interface ClientSurface<Context> {
  /** The style of the hosts that have it. */
  readonly style: RoutingFacts['surface'];
  /** Where its requests have JSON that is only carried. */
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
