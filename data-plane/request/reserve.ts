/**
 * Reserves room in the limits on a caller, in the same turn of the event loop in which they are checked. If there is no room,
 * the request waits for a limited time, as long as other gateways may give some up.
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

/** Maximum time in ms for which a request waits until other gateways give up room in a limit. */
const roomTimeoutMs = waits.gatewayRoom.ms;

/** Reserves room at once, or waits for it. `ends` contains the latest end of the wait for each limit, in monotonic ms. */
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
    // Each limit has its own time-out, because a slow reply from the log about one limit says nothing about other limits.
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

/** Checks the limits and reserves room. Must stay synchronous, so that no other request can take the room in between. */
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

/** Combines the leases of a visitor's request: on the visitor's limits, on all visitors' limits, and on the turn. */
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
      // Do not use `perMinute` here, because it is the limit of one visitor.
      all.cancel(requestsPerMinute);
    },
  };
}
