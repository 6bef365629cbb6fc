/** Collects the facts of one request until it ends. */
import { deriveOutcome, type RequestOutcome, recordedEnd } from '../../schemas/records/verdict.ts';
import type { Operation } from '../../shared/decision/admission.ts';
import type { Caller } from '../../shared/decision/authenticate.ts';
import type { Decision, RequestFacts } from '../../shared/decision/decide.ts';
import type { Refusal } from '../../shared/decision/refusal.ts';
import type { Target } from '../../shared/decision/route.ts';
import type { OpenOverlay } from '../../shared/snapshot/waves.ts';
import type { AnswerIds } from '../http/answers.ts';
import type { ClientAnswer, Exchange } from '../http/exchange.ts';
import type { ForwardOutcome } from '../nodes/forward.ts';
import type { RequestTrace } from '../surfaces/common/trace-context.ts';
import type { SeenCounters } from './seen-counters.ts';

/** Times at which the phases ended, in monotonic ms; undefined before. */
class Milestones {
  /** The key was accepted, or no key was needed. */
  accepted: number | undefined;
  /** The body was read. */
  read: number | undefined;
  /** The body was parsed. */
  shaped: number | undefined;
  /** Limits and routing were decided. */
  decided: number | undefined;
  /** The last attempt was sent to a node. */
  sent: number | undefined;
  /** The answer began. */
  begun: number | undefined;
}

/**
 * The facts of one request for its records. Each phase sets the fields that it knows; readers come after the request's end.
 * All fields exist from the start, because V8 would reallocate an object that grows by twelve fields four times.
 */
export class RequestRecord {
  /** HTTP method. The parser only accepts methods of its own list. */
  readonly method: string;
  /** Header that may contain the key. */
  readonly keyHeader: 'authorization' | 'x-api-key';
  readonly ids: AnswerIds;
  readonly path: string;
  readonly startMs = performance.now();
  readonly at = new Milestones();
  readonly trace: RequestTrace | undefined;
  target: Target | undefined;
  operation: Operation | undefined;
  caller: Caller | undefined;
  model: string | undefined;
  stream: boolean | undefined;
  decision: Decision | undefined;
  outcome: ForwardOutcome | undefined;
  refusal: Refusal | undefined;
  /** Time of a refusal or of a list answer, ms since 1970; 0 before. Limits and route have theirs in `seen`. */
  decidedMs = 0;
  /** `seq` of the commit at which the decision was made. */
  position: number | undefined;
  /** The staged change whose rows the decision read instead of the current ones. */
  overlaid: OpenOverlay | undefined;
  /** Facts that the decision used. They are stored as they are, and copied only at the end of the request. */
  facts: RequestFacts | undefined;
  /** Counter values at the time when the limits were checked. */
  seen: SeenCounters | undefined;
  /** Lower bound of the prompt's tokens, if it was computed. */
  promptLeast: number | undefined;
  /** Prompt tokens as counted by a node. */
  promptCounted: number | undefined;
  /** Node, model and form of an unusual, ambiguous or unknown answer. */
  oddForm: string | undefined;

  readonly #answer: ClientAnswer;

  constructor({ head, answer }: Exchange, ids: AnswerIds, path: string, trace: RequestTrace | undefined) {
    const { method = '', headers } = head;
    this.#answer = answer;
    this.method = method;
    const isApiKey = headers.authorization === undefined && headers['x-api-key'] !== undefined;
    this.keyHeader = isApiKey ? 'x-api-key' : 'authorization';
    this.ids = ids;
    this.path = path;
    this.trace = trace;
  }

  /** Status code of the answer; undefined if no head was sent. */
  get status(): number | undefined {
    if (this.#answer.startedMs === undefined) return undefined;
    return this.outcome === undefined && this.refusal !== undefined ? this.refusal.status : 200;
  }
}

/** `completed`, or `ended by …` and the party; undefined if the request was refused or needs no node. */
export function recordedOutcome({ outcome }: Pick<RequestRecord, 'outcome'>): string | undefined {
  return outcome?.kind === 'ended-early' ? recordedEnd(outcome.by) : outcome?.kind;
}

export function outcomeOf(record: Pick<RequestRecord, 'refusal' | 'outcome'>): RequestOutcome {
  return deriveOutcome({ served: record.refusal === undefined, outcome: recordedOutcome(record) });
}
