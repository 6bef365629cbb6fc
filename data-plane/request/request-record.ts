/** Collects the facts about one request while it is handled. */
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

/** Times at which each phase of a request ended, in monotonic ms. Undefined for phases that have not ended. */
class Milestones {
  /** Time at which the caller was accepted. */
  accepted: number | undefined;
  read: number | undefined;
  /** Time at which the body had been parsed. */
  shaped: number | undefined;
  decided: number | undefined;
  /** Time at which the request was last sent to a node. */
  sent: number | undefined;
  begun: number | undefined;
}

/**
 * Facts about one request, for its records. Each phase sets the facts that it knows, and they are read when the request has
 * ended. All fields exist from the start, because V8 reallocates an object whose fields are added later.
 */
export class RequestRecord {
  /** HTTP method. It is safe to record, because only known methods are accepted. */
  readonly method: string;
  /** Name of the header in which the key was sent, if there was one. */
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
  /** Time of the refusal or listing, in ms since 1970, or 0. `seen` contains the time at which limits were checked. */
  decidedMs = 0;
  /** Number of the last commit that the state contained when the request was decided. */
  position: number | undefined;
  /** Staged change that was tried on this request: the decision read the change's rows in place of the committed ones. */
  overlaid: OpenOverlay | undefined;
  /** Facts that the decision was based on. They are copied into the record only when the request ends. */
  facts: RequestFacts | undefined;
  /** Values of the counters that the decision has read. */
  seen: SeenCounters | undefined;
  /** Lower bound on the number of tokens in the prompt, if it was computed. */
  promptLeast: number | undefined;
  /** Number of tokens in the prompt, if a node counted them. */
  promptCounted: number | undefined;
  /** Description of a response whose form is unusual, with the names of its node and model. */
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

  /** Status code of the response to the client, or undefined if no response has begun. */
  get status(): number | undefined {
    if (this.#answer.startedMs === undefined) return undefined;
    return this.outcome === undefined && this.refusal !== undefined ? this.refusal.status : 200;
  }
}

/** Recorded outcome: `completed`, or `ended by` and who ended it. Undefined if the request was refused or needed no node. */
export function recordedOutcome({ outcome }: Pick<RequestRecord, 'outcome'>): string | undefined {
  return outcome?.kind === 'ended-early' ? recordedEnd(outcome.by) : outcome?.kind;
}

export function outcomeOf(record: Pick<RequestRecord, 'refusal' | 'outcome'>): RequestOutcome {
  return deriveOutcome({ served: record.refusal === undefined, outcome: recordedOutcome(record) });
}
