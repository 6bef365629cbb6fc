/**
 * Limits the requests that a listener handles in one turn of the event loop, and a gateway's time for node responses.
 * Otherwise a thousand ready connections, each sending its next request at once, would starve timers and new connections.
 */
import { peerPrefix } from './connections.ts';
import { TurnQueue } from './turn-queue.ts';

/** Once a turn has lasted this long, it starts no further request. */
const turnMsMax = 15;
const handledMaxDefault = 256;

/** Requests beyond the limits are handled in later turns of the event loop; peer addresses take turns. */
export function boundTurns<Request>(
  handle: (request: Request) => void,
  addressOf: (request: Request) => string | undefined,
  handledMax = handledMaxDefault,
): (request: Request) => void {
  // From this number on, the end of the turn is awaited. A listener that is not busy does not pay for that.
  const watchedFrom = handledMax / 4;
  // Waiting requests that start in one turn. It is low, because work after their first await is not measured here.
  const resumedMax = Math.max(2, handledMax / 16);
  let handled = 0;
  /** When the turn's first request started, or when the turn was last given more time. */
  let sinceMs = 0;
  const waiting = new TurnQueue<Request>();
  let isPlanned = false;
  const plan = (): void => {
    if (isPlanned) return;
    isPlanned = true;
    setImmediate(nextTurn);
  };
  const nextTurn = (): void => {
    isPlanned = false;
    sinceMs = performance.now();
    for (handled = 0; handled < resumedMax && performance.now() - sinceMs <= turnMsMax; handled++) {
      const request = waiting.take();
      if (request === undefined) break;
      handle(request);
    }
    // Also needed if the system suspended this thread before the first request: otherwise nothing plans the next turn.
    if (handled > 0 || waiting.size > 0) plan();
  };
  const isOver = (): boolean => {
    const nowMs = performance.now();
    if (handled === 0) sinceMs = nowMs;
    if (handled >= watchedFrom) plan();
    if (nowMs - sinceMs <= turnMsMax) return false;
    if (isPlanned) return true;
    // A new turn may just have begun, so grant the time once more.
    sinceMs = nowMs;
    plan();
    return false;
  };
  return (request) => {
    if (isOver() || handled >= handledMax || waiting.size > 0)
      waiting.add(peerPrefix(addressOf(request)), request);
    else {
      handled++;
      handle(request);
    }
  };
}
