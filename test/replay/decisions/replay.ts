/**
 * Decides a golden request: the phases before `forward`, in the composition that live serving has, over a look-up at any position
 * of the log. Pure: counters and the time are facts, so the same facts give the same decision.
 * Shape is left out: what it gives (model, tokens) is part of the facts, for bodies are never recorded.
 */

import { type CounterFacts, fixedCounters } from '../../../control-plane/explain/recorded-counters.ts';
import type { RefusalType } from '../../../schemas/api/refusals.ts';
import type { Capacity } from '../../../schemas/records/usage.ts';
import {
  type AdmissionFacts,
  admission,
  type HostNames,
  type Verdict,
} from '../../../shared/decision/admission.ts';
import { Refusal } from '../../../shared/decision/refusal.ts';
import type { Lookup } from '../../../shared/snapshot/lookup.ts';

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
  return replayed(admission({ lookup, hosts }, facts, fixedCounters(facts.counters), conditions));
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
