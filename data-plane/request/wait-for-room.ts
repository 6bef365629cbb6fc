/** A request that finds no room in its limits waits where the other gateways may give up some. */
import type { Counters, RequestFacts } from '../../shared/decision/decide.ts';
import { Refusal } from '../../shared/decision/refusal.ts';
import { ClientGone } from '../../shared/runtime/request-body.ts';
import { waits } from '../../shared/runtime/waits.ts';
import type { Exchange } from '../http/exchange.ts';
import type { Gateway } from './gateway.ts';
import { type Reservation, reserve } from './reserve.ts';

/** How long a request waits until the log has granted room that other gateways hold. */
const roomTimeoutMs = waits.gatewayRoom.ms;

/** Reserves at once; a request that finds no room waits where the other gateways may give up some. */
export function reserveOrWait(
  gateway: Gateway,
  facts: RequestFacts,
  exchange: Pick<Exchange, 'gone'>,
  counters: Counters,
): Reservation | Promise<Reservation> {
  try {
    return reserve(gateway, facts, counters);
  } catch (error) {
    if (!(error instanceof Refusal) || error.exhausted === undefined) throw error;
    const untilMs = performance.now() + roomTimeoutMs;
    const { gone } = exchange;
    const waiting = gateway.counters.waitForRoom(error.exhausted, gateway.now(), untilMs, gone);
    if (waiting === undefined) throw error;
    return afterWait(gateway, facts, { counters, gone, untilMs, waiting });
  }
}

interface Wait {
  readonly counters: Counters;
  readonly gone: AbortSignal;
  readonly untilMs: number;
  readonly waiting: Promise<boolean>;
}

async function afterWait(
  gateway: Gateway,
  facts: RequestFacts,
  { counters, gone, untilMs, waiting: first }: Wait,
): Promise<Reservation> {
  let waiting: Promise<boolean> | undefined = first;
  for (;;) {
    await waiting;
    if (gone.aborted) throw new ClientGone('the client left while its request waited for a limit');
    try {
      return reserve(gateway, facts, counters);
    } catch (error) {
      if (!(error instanceof Refusal) || error.exhausted === undefined) throw error;
      waiting = gateway.counters.waitForRoom(error.exhausted, gateway.now(), untilMs, gone);
      if (waiting === undefined) throw error;
    }
  }
}
