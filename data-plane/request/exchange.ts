/** One exchange as it goes on: the access log and the metrics are made of it. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Caller } from '../../shared/decision/authenticate.ts';
import type { Decision } from '../../shared/decision/decide.ts';
import type { Target } from '../../shared/decision/host.ts';
import type { Operation } from '../../shared/decision/operation.ts';
import type { Refusal } from '../../shared/decision/refusal.ts';
import type { ForwardOutcome } from '../forward/forward.ts';
import type { AnswerIds } from './reply.ts';

/** When a step of the way was done, monotonic ms. */
export interface Milestones {
  /** The key was accepted, or none was needed. */
  accepted?: number;
  /** The body was there. */
  read?: number;
  /** It was understood. */
  shaped?: number;
  /** Limits and routing had their say. */
  decided?: number;
  /** The request went out to a node, at the last try. */
  sent?: number;
  /** The answer began. */
  begun?: number | undefined;
}

/** What is known of an exchange as it goes on; the access log and the metrics are made of it. */
export interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly ids: AnswerIds;
  readonly path: string;
  readonly startMs: number;
  readonly at: Milestones;
  target?: Target;
  operation?: Operation;
  caller?: Caller;
  model?: string;
  stream?: boolean;
  decision?: Decision;
  outcome?: ForwardOutcome;
  refusal?: Refusal;
  /** The node has the request's text, so it need not be held here. */
  releaseText?: () => void;
  /** `seq` of the commit the decision was made at. */
  position?: number;
}
