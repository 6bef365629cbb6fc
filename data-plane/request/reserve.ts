/** Reserves capacity for a request in the limits of its organisation, in the turn of the event loop in which they are checked. */
import { visitorsSubject } from '../../schemas/limits.ts';
import {
  type Counters,
  type Decision,
  decideRequest,
  type RequestFacts,
} from '../../shared/decision/decide.ts';
import { weightWithin } from '../../shared/decision/limits.ts';
import type { VisitorTotals } from '../../shared/snapshot/lookup.ts';
import type { Lease } from './counters.ts';
import type { Gateway } from './gateway.ts';
import { SeenCounters } from './seen-counters.ts';

export interface Reservation {
  readonly decision: Decision;
  readonly lease: Lease;
}

/** Synchronous, so that no other request takes the capacity between check and reservation. */
export function reserve(gateway: Gateway, facts: RequestFacts, counters: Counters): Reservation {
  const nowMs = gateway.now();
  if (counters instanceof SeenCounters) counters.atMs = nowMs;
  const conditions = { fenced: gateway.fenced(), outboxFull: gateway.meter.isFull, nowMs };
  const decision = decideRequest(gateway.lookup, counters, facts, conditions);
  const { counted, weight, tier, total } = decision;
  const lease = gateway.counters.reserve(counted, weight, nowMs, tier);
  if (total === undefined || facts.caller.kind !== 'anonymous') return { decision, lease };
  const ofAll = weightWithin(weight, total.concurrency);
  const all = gateway.counters.reserve(visitorsSubject, ofAll, nowMs, total);
  return { decision, lease: ofVisitor(lease, all, gateway.counters.reserveTurn(facts.caller), total) };
}

/** A visitor's own lease, that of all visitors together, and the turn. */
function ofVisitor(own: Lease, all: Lease, endTurn: () => void, { requestsPerMinute }: VisitorTotals): Lease {
  return {
    release: () => {
      own.release();
      all.release();
      endTurn();
    },
    cancel: (perMinute) => {
      endTurn();
      own.cancel(perMinute);
      // Each has the limit of its own subject.
      all.cancel(requestsPerMinute);
    },
  };
}
