/**
 * Limits what happens in one turn of the event loop: requests that a listener starts, and a gateway's work on node responses.
 * Otherwise a thousand connections that each send a request at once would starve timers and new connections.
 */
import { peerPrefix } from './connections.ts';
import { TurnQueue } from './turn-queue.ts';

/** Time in ms after which a turn of the event loop starts no further requests. */
const turnMsMax = 15;
const handledMaxDefault = 256;

/** Wraps a request handler. Requests beyond the limits wait for later turns of the event loop, and peers take turns. */
export function boundTurns<Request>(
  handle: (request: Request) => void,
  addressOf: (request: Request) => string | undefined,
  handledMax = handledMaxDefault,
): (request: Request) => void {
  // Number of requests in one turn from which the turn's end is watched, which an idle listener does not need.
  const watchedFrom = handledMax / 4;
  // Number of waiting requests that start in one turn. It is low, because work after their first await is not measured.
  const resumedMax = Math.max(2, handledMax / 16);
  let handled = 0;
  /** Time when the turn's first request started, or when the turn was last granted more time. */
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
    // Plan another turn even if no request was handled, because this thread may have been suspended before the first one.
    if (handled > 0 || waiting.size > 0) plan();
  };
  const isOver = (): boolean => {
    const nowMs = performance.now();
    if (handled === 0) sinceMs = nowMs;
    if (handled >= watchedFrom) plan();
    if (nowMs - sinceMs <= turnMsMax) return false;
    if (isPlanned) return true;
    // The event loop may just have begun a new turn, so allow the same time once more.
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
