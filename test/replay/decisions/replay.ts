/**
 * Decides a golden request by the state at any position of the log, with the same phases before `forward` as live serving.
 * The function is pure: counters and the time are facts, so equal facts always give the same decision. The shape phase is
 * left out, because bodies are never recorded. Its results (model, tokens) are part of the facts.
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
  /** Time of the wall clock, in ms since 1970. */
  readonly nowMs: number;
  /** Whether the snapshot was too old to prove a key. */
  readonly fenced?: boolean;
  /** Whether no more usage could be recorded. */
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
      /**
       * Whether the refused request counts towards the limits. It does only if the limits admitted it and routing then
       * refused it.
       */
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
  /** A model listing; `body` is its JSON. */
  | { readonly kind: 'listed'; readonly body: string };

/** Decides these facts at the look-up's position. Throws only if the program has a bug. */
export function replayDecision(lookup: Lookup, facts: ReplayFacts, hosts: HostNames): ReplayedDecision {
  const { fenced = false, outboxFull = false, nowMs } = facts;
  const conditions = { fenced, outboxFull, nowMs };
  return replayed(admission({ lookup, hosts }, facts, fixedCounters(facts.counters), conditions));
}

/** Converts a verdict of live serving, leaving out the parts that only this process can use. */
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
