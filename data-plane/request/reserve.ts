/**
 * Reserves capacity for a request in the limits of its organisation, in the turn of the event loop in which they are checked.
 * A request that finds no room waits where the other gateways may give up some.
 */
import { visitorsSubject } from '../../schemas/records/limits.ts';
import {
  type Counters,
  type Decision,
  decideRequest,
  type RequestFacts,
} from '../../shared/decision/decide.ts';
import { weightWithin } from '../../shared/decision/limits.ts';
import { Refusal } from '../../shared/decision/refusal.ts';
import { ClientGone } from '../../shared/runtime/body-pieces.ts';
import { waits } from '../../shared/runtime/waits.ts';
import type { VisitorTotals } from '../../shared/snapshot/lookup.ts';
import type { Exchange } from '../http/exchange.ts';
import type { Lease } from './counters.ts';
import type { Gateway } from './gateway.ts';
import { SeenCounters } from './seen-counters.ts';

export interface Reservation {
  readonly facts: RequestFacts;
  readonly decision: Decision;
  readonly lease: Lease;
}

/** How long a request waits until the log has granted room that other gateways hold. */
const roomTimeoutMs = waits.gatewayRoom.ms;

/** Reserves at once, unless there is no room: `ends` has when the waits end that have begun, by their limit, monotonic ms. */
export function reserveOrWait(
  gateway: Gateway,
  facts: RequestFacts,
  client: Pick<Exchange, 'gone'>,
  counters: Counters,
  ends?: Map<string, number>,
): Reservation | Promise<Reservation> {
  try {
    return reserve(gateway, facts, counters);
  } catch (error) {
    if (!(error instanceof Refusal) || error.exhausted === undefined) throw error;
    // Each limit has its own time: that a log was slow to answer for one says nothing of another.
    const limit = `${error.exhausted.kind} ${error.exhausted.subject}`;
    const untilMs = ends?.get(limit) ?? performance.now() + roomTimeoutMs;
    const waiting = gateway.counters.waitForRoom(error.exhausted, gateway.now(), untilMs, client.gone);
    if (waiting === undefined) throw error;
    return waiting.then(() => {
      if (client.gone.aborted) throw new ClientGone('the client left while its request waited for a limit');
      return reserveOrWait(gateway, facts, client, counters, new Map(ends).set(limit, untilMs));
    });
  }
}

/** Synchronous, so that no other request takes the capacity between check and reservation. */
export function reserve(gateway: Gateway, facts: RequestFacts, counters: Counters): Reservation {
  const nowMs = gateway.now();
  if (counters instanceof SeenCounters) counters.atMs = nowMs;
  const conditions = { fenced: gateway.fenced(), outboxFull: gateway.meter.isFull, nowMs };
  const decision = decideRequest(gateway.lookup, counters, facts, conditions);
  const { counted, weight, tier, total } = decision;
  const lease = gateway.counters.reserve(counted, weight, nowMs, tier);
  if (total === undefined || facts.caller.kind !== 'anonymous') return { facts, decision, lease };
  const ofAll = weightWithin(weight, total.concurrency);
  const all = gateway.counters.reserve(visitorsSubject, ofAll, nowMs, total);
  const endTurn = gateway.counters.reserveTurn(facts.caller);
  return { facts, decision, lease: ofVisitor(lease, all, endTurn, total) };
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
