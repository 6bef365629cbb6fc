/** Notes of one request, kept until its end. */
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

/** When a phase was done, monotonic ms; undefined before. */
class Milestones {
  /** The key was accepted, or none was needed. */
  accepted: number | undefined;
  /** The body was there. */
  read: number | undefined;
  /** It was understood. */
  shaped: number | undefined;
  /** Limits and routing have decided. */
  decided: number | undefined;
  /** The request went out to a node, at the last try. */
  sent: number | undefined;
  /** The answer began. */
  begun: number | undefined;
}

/**
 * Notes of one request for its access log line, its metrics, its span and the journal. Each phase sets the fields that it knows, in the
 * order of the phases; readers come after the request's end. All fields exist from the start, because V8 reallocates an object
 * that grows by twelve fields four times.
 */
export class RequestRecord {
  /** The parser lets only those of its own list through. */
  readonly method: string;
  /** The header that a key may be in. */
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
  /** When it was refused or listed, ms since 1970; 0 before. Of limits and route it is in `seen`. */
  decidedMs = 0;
  /** `seq` of the commit the decision was made at. */
  position: number | undefined;
  /** The change whose rows it read in place of others. */
  overlaid: OpenOverlay | undefined;
  /** What was decided on: kept as it is, copied only at the end of the request. */
  facts: RequestFacts | undefined;
  /** What the counters held when the limits were checked. */
  seen: SeenCounters | undefined;
  /** The bound from below of the prompt's tokens, where it was asked for. */
  promptLeast: number | undefined;
  /** Tokens of the prompt as a node counted them. */
  promptCounted: number | undefined;
  /** Node, model and form of an answer that was unusual, ambiguous or unknown. */
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

  /** Status of the answer's head; undefined if none was sent. */
  get status(): number | undefined {
    if (this.#answer.startedMs === undefined) return undefined;
    return this.outcome === undefined && this.refusal !== undefined ? this.refusal.status : 200;
  }
}

/** `completed`, or `ended by …` with who ended it; undefined for a refused request and for one that needs no node. */
export function recordedOutcome({ outcome }: Pick<RequestRecord, 'outcome'>): string | undefined {
  return outcome?.kind === 'ended-early' ? recordedEnd(outcome.by) : outcome?.kind;
}

export function outcomeOf(record: Pick<RequestRecord, 'refusal' | 'outcome'>): RequestOutcome {
  return deriveOutcome({ served: record.refusal === undefined, outcome: recordedOutcome(record) });
}
