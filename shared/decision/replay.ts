/**
 * Re-decides a recorded request: the phases before `forward`, in the composition that live serving has, over a look-up at
 * any position of the log (design: Replay). Pure: counters and the time are facts, so the same facts give the same decision.
 * Shape is left out: what it gives (model, tokens) is part of the facts, for bodies are never recorded.
 */
import type { SeenLimit } from '../../schemas/decisions.ts';
import { visitorsSubject } from '../../schemas/limits.ts';
import type { RefusalType } from '../../schemas/refusals.ts';
import type { Capacity } from '../../schemas/usage.ts';
import type { Lookup } from '../snapshot/lookup.ts';
import { type AdmissionFacts, admission, type HostNames, type Verdict } from './admission.ts';
import { type Counters, windowMs, windowStartMs } from './decide.ts';
import type { LimitUsers } from './limits.ts';
import { Refusal } from './refusal.ts';

interface LimitCounters {
  /** What was compared with the limit of the minute: the limit less the room that there was. */
  readonly windowUsed: number;
  /** The same of the weights in flight. */
  readonly inFlight: number;
  readonly requests?: SeenLimit | undefined;
  readonly concurrency?: SeenLimit | undefined;
}

/** What the counters held when the request came. */
export interface CounterFacts extends LimitCounters {
  /** `windowUsed` and `inFlight` are what all gateways use, as they published it. */
  readonly published?: true | undefined;
  /** Tokens of the allowance used in the present period. */
  readonly poolTokens: number;
  /** Completed turns of the visitor. */
  readonly freeTurns: number;
  /** Turns of the visitor's network on the day. */
  readonly networkTurns?: number | undefined;
  /** Of all visitors together. */
  readonly visitors?: VisitorCounters | undefined;
}

export interface VisitorCounters extends LimitCounters {
  /** Of the day. */
  readonly tokens: number;
}

export interface ReplayFacts extends AdmissionFacts {
  readonly counters: CounterFacts;
  /** Wall clock, ms since 1970. */
  readonly nowMs: number;
  /** Was the snapshot too old to prove a key? */
  readonly fenced?: boolean;
  /** Could no more usage be recorded? */
  readonly outboxFull?: boolean;
}

export type ReplayedDecision =
  | {
      readonly kind: 'refused';
      readonly type: RefusalType;
      readonly status: number;
      readonly reason: string;
      readonly message: string;
      readonly retryAfterSeconds?: number;
      /** Does it count against the limits? Only what passed them and was refused by routing does. */
      readonly counted: boolean;
    }
  | {
      readonly kind: 'placed';
      readonly capacity: Capacity;
      readonly nodes: readonly string[];
      readonly tier: string;
      readonly subject: string;
      readonly weight: number;
    }
  /** The body of a model listing, JSON. */
  | { readonly kind: 'listed'; readonly body: string };

/** The decision of these facts at the look-up's position. Throws only for a fault of this program. */
export function replayDecision(lookup: Lookup, facts: ReplayFacts, hosts: HostNames): ReplayedDecision {
  const { fenced = false, outboxFull = false, nowMs } = facts;
  const conditions = { fenced, outboxFull, nowMs };
  return replayed(admission({ lookup, hosts }, facts, countersOf(facts.counters), conditions));
}

/** A verdict without what only this process could use. */
export function replayed(verdict: Verdict): ReplayedDecision {
  if (verdict.kind === 'listed') return verdict;
  if (verdict.kind === 'refused') return refused(verdict.refusal, verdict.counted);
  const { placement, tier, subject, weight } = verdict.decision;
  if (placement instanceof Refusal) return refused(placement, true);
  const nodes = placement.candidates.map(({ node }) => node).sort();
  return { kind: 'placed', capacity: placement.capacity, nodes, tier: tier.id, subject, weight };
}

/** Counters that stand still at what was recorded. */
export function countersOf(counters: CounterFacts): Counters {
  const { visitors = { windowUsed: 0, inFlight: 0, tokens: 0 } } = counters;
  const of = (subject: string) => (subject === visitorsSubject ? visitors : counters);
  return {
    window: (subject, nowMs, limit) => ({
      used: comparedWith(limit, of(subject).windowUsed, of(subject).requests),
      endsAtMs: windowStartMs(subject, nowMs) + windowMs,
    }),
    inFlight: (subject, limit) => comparedWith(limit, of(subject).inFlight, of(subject).concurrency),
    users: (kind, subject) => {
      const found = of(subject);
      if (counters.published) return { used: kind === 'requests' ? found.windowUsed : found.inFlight };
      return withoutRoom(found[kind]);
    },
    poolTokens: () => counters.poolTokens,
    freeTurns: () => counters.freeTurns,
    networkTurns: () => counters.networkTurns ?? 0,
    visitorTokens: () => visitors.tokens,
  };
}

/** Room was that of one limit: with another one, what is known to be used counts. */
function comparedWith(limit: number | null, compared: number, use: SeenLimit | undefined): number {
  if (use === undefined || limit === null || compared + use.room === limit) return compared;
  return use.here + (use.elsewhere ?? 0);
}

function withoutRoom(use: SeenLimit | undefined): LimitUsers | undefined {
  if (use === undefined) return undefined;
  const { room: _, ...users } = use;
  return users;
}

function refused(refusal: Refusal, counted: boolean): ReplayedDecision {
  const { type, status, reason, message, retryAfterSeconds } = refusal;
  return {
    kind: 'refused',
    type,
    status,
    reason,
    message,
    ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
    counted,
  };
}
