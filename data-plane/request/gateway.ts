/** What a request works with, and what is recorded of it. */

import { outcomeFrom, type RequestOutcome, recordedEnd } from '../../schemas/records/verdict.ts';
import type { HostNames, Operation } from '../../shared/decision/admission.ts';
import type { Caller } from '../../shared/decision/authenticate.ts';
import type { Decision, RequestFacts } from '../../shared/decision/decide.ts';
import type { Refusal } from '../../shared/decision/refusal.ts';
import type { Target } from '../../shared/decision/route.ts';
import type { BodyBudget } from '../../shared/runtime/byte-budget.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { Lookup } from '../../shared/snapshot/lookup.ts';
import type { Overlaid } from '../../shared/snapshot/waves.ts';
import type { AnswerIds } from '../http/answers.ts';
import type { EarlyRefusal } from '../http/early-refusal.ts';
import type { ClientAnswer, Exchange } from '../http/exchange.ts';
import type { Affinity } from '../nodes/affinity.ts';
import type { PromptCounter } from '../nodes/count-tokens.ts';
import type { ForwardMeans, ForwardOutcome } from '../nodes/forward.ts';
import type { TenantSecrets } from '../surfaces/common/tenant-secrets.ts';
import type { RequestTrace } from '../surfaces/common/trace-context.ts';
import type { Meter } from '../usage/meter.ts';
import type { LocalCounters } from './counters.ts';
import type { SeenCounters } from './seen-counters.ts';

export interface Gateway extends ForwardMeans {
  readonly hosts: HostNames;
  readonly lookup: Lookup;
  readonly counters: LocalCounters;
  readonly bodies: BodyBudget;
  readonly affinity: Affinity;
  /** For requests to the pool; undefined where they go without. */
  readonly cacheSalts: TenantSecrets | undefined;
  /** Under which thoughts are sealed for the client that keeps them. */
  readonly sealKeys: TenantSecrets;
  readonly meter: Meter;
  readonly countTokens: PromptCounter;
  readonly logger: Logger;
  /** May no key be accepted, because the snapshot cannot be proven fresh enough? Checked within each request. */
  fenced(): boolean;
  /** Where a request is to wait for another proof, which ends in time; undefined where it is not. */
  provenSoon(): Promise<void> | undefined;
  /** Wall clock, ms since 1970: decides whether a key has expired. */
  now(): number;
  /** Time of the log, ms since 1970. Periods, a visitor's days and months, and usage rows follow it. */
  logNow(): number;
  /** The trace of a request, from its `traceparent` header; undefined where it has none. */
  trace(header: unknown): RequestTrace | undefined;
  /** Called at the start of each request. */
  begin(): void;
  /** Called at the end of each request, for metrics and the access log. */
  observe(record: RequestRecord): void;
  /** For the decision journal alone. */
  observeEarly(refused: EarlyRefusal): void;
}

/** Is it a name that the state has? Any other text is the caller's own. */
export function isModelName(lookup: Pick<Lookup, 'isCatalogued' | 'isPooled'>, model: string): boolean {
  return lookup.isCatalogued(model) || lookup.isPooled(model);
}

/** The model of a request as records and reports may keep it; empty for a text of its caller. What was placed, the state has. */
export function keptModel(
  model: string,
  decision: Decision | undefined,
  known: { isKnown(model: string): boolean },
): string {
  const isPlaced = decision !== undefined && 'capacity' in decision.placement;
  return isPlaced || known.isKnown(model) ? model : '';
}

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
 * What the phases write down for the access log and the metrics; no phase reads it. Its fields are there from the start,
 * because an object that gets twelve more is reallocated four times.
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
  overlaid: Overlaid | undefined;
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
  return outcomeFrom({ served: record.refusal === undefined, outcome: recordedOutcome(record) });
}
