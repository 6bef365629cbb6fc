/**
 * What the thread of requests and the thread of shaping say to each other. One job is under way at a time, and has one
 * answer; texts stay with the thread of shaping until they are dropped.
 */
import type { Dialect } from '../../schemas/names.ts';
import type { RefusalType } from '../../schemas/refusals.ts';
import type { NodeTarget } from '../dialect/to-node-body.ts';
import type { Operation } from '../request/operation.ts';
import type { ShapeHeaders } from '../request/shape-operation.ts';
import type { NodeFailureKind } from '../response/node-failure.ts';
import type { Rebuilding } from '../response/rebuild.ts';
import type { Usage } from '../response/usage.ts';
import type { Outlined } from './outlined.ts';

export type Blocks = readonly Uint8Array<ArrayBuffer>[];

export type ShapingJob =
  /** A body becomes a request; its text is held under the number of the job. */
  | {
      readonly kind: 'shape';
      readonly operation: Operation;
      readonly headers: ShapeHeaders;
      readonly blocks: Blocks;
    }
  | { readonly kind: 'render'; readonly held: number; readonly dialect: Dialect; readonly target: NodeTarget }
  | { readonly kind: 'question'; readonly held: number; readonly dialect: Dialect; readonly served: string }
  /** An answer of a node becomes ours. */
  | { readonly kind: 'rebuild'; readonly rebuilding: Rebuilding; readonly blocks: Blocks }
  /** The number in a node's answer to a count. */
  | { readonly kind: 'count'; readonly dialect: Dialect; readonly blocks: Blocks };

/** To the thread of shaping. */
export type ShapingRequest =
  | { readonly kind: 'job'; readonly id: number; readonly job: ShapingJob }
  | { readonly kind: 'drop'; readonly held: number };

export type ShapingResult =
  | { readonly kind: 'shaped'; readonly outlined: Outlined }
  | { readonly kind: 'rendered'; readonly bytes: Uint8Array<ArrayBuffer> }
  | {
      readonly kind: 'question';
      readonly question: { readonly path: string; readonly body: Uint8Array<ArrayBuffer> } | undefined;
    }
  | { readonly kind: 'rebuilt'; readonly bytes: Uint8Array<ArrayBuffer>; readonly usage: Usage }
  | { readonly kind: 'counted'; readonly tokens: number | undefined }
  | {
      readonly kind: 'refused';
      readonly type: RefusalType;
      readonly message: string;
      readonly reason: string;
    }
  | {
      readonly kind: 'node-failure';
      readonly failure: NodeFailureKind;
      readonly message: string;
      readonly detail: unknown;
    }
  /** A fault of ours. Its text is not carried over, because it may quote the body. */
  | { readonly kind: 'fault'; readonly name: string };

/** From the thread of shaping. */
export interface ShapingAnswer {
  readonly id: number;
  readonly result: ShapingResult;
}
