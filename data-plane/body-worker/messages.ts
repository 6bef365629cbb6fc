/**
 * Messages between the main thread and the body worker. Each job gets exactly one response before the next job is sent. The
 * worker keeps the text of a validated request until the main thread discards it.
 */
import type { Dialect } from '../../schemas/names.ts';
import type { Operation } from '../../shared/decision/admission.ts';
import type { Cause } from '../../shared/decision/causes.ts';
import type { NodeTarget } from '../surfaces/common/asked.ts';
import type { AnswerFacts } from '../surfaces/common/chat-parts.ts';
import type { NodeFailureKind } from '../surfaces/common/node-failure.ts';
import type { RebuiltBody, ShapeHeaders } from '../surfaces/common/surface.ts';
import type { AnswerForm } from '../surfaces/surfaces.ts';
import type { RequestOutline } from './request-outline.ts';

export type Blocks = readonly Uint8Array<ArrayBuffer>[];

export type BodyJob =
  /** Parses and validates the body of a request. The worker keeps the body's text under the id of this job. */
  | {
      readonly kind: 'shape';
      readonly operation: Operation;
      readonly headers: ShapeHeaders;
      readonly blocks: Blocks;
    }
  /** Builds the body of the request to a node from the request text that the worker keeps. */
  | {
      readonly kind: 'render';
      readonly textId: number;
      readonly dialect: Dialect;
      readonly target: NodeTarget;
    }
  /** Builds the request that makes a node count tokens, from the request text that the worker keeps. */
  | {
      readonly kind: 'render-count';
      readonly textId: number;
      readonly dialect: Dialect;
      readonly served: string;
    }
  /** Converts a node's response to the form in which the client gets it. */
  | {
      readonly kind: 'rebuild';
      readonly facts: AnswerFacts;
      readonly form: AnswerForm;
      readonly blocks: Blocks;
    }
  /** Reads the number of tokens from a node's response to a token count. */
  | { readonly kind: 'parse-count'; readonly dialect: Dialect; readonly blocks: Blocks };

/** Message from the main thread to the worker. */
export type BodyWorkerRequest =
  | { readonly kind: 'job'; readonly id: number; readonly job: BodyJob }
  | { readonly kind: 'discard'; readonly textId: number };

export type BodyResult =
  | { readonly kind: 'shaped'; readonly outline: RequestOutline }
  | { readonly kind: 'rendered'; readonly bytes: Uint8Array<ArrayBuffer> }
  | {
      readonly kind: 'count-request';
      readonly countRequest: { readonly path: string; readonly body: Uint8Array<ArrayBuffer> } | undefined;
    }
  | ({ readonly kind: 'rebuilt'; readonly bytes: Uint8Array<ArrayBuffer> } & Omit<RebuiltBody, 'body'>)
  | { readonly kind: 'count'; readonly tokens: number | undefined }
  | {
      readonly kind: 'refused';
      readonly cause: Cause;
      readonly message: string;
    }
  | {
      readonly kind: 'node-failure';
      readonly failure: NodeFailureKind;
      readonly message: string;
      readonly detail: unknown;
    }
  /** Result of a job that failed unexpectedly. It has no error message, because the message may quote the body. */
  | { readonly kind: 'fault'; readonly name: string };

/** Message from the worker to the main thread. */
export interface BodyWorkerResponse {
  readonly id: number;
  readonly result: BodyResult;
}
