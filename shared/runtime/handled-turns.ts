/**
 * Bounds the requests that a listener handles in one turn of the event loop by number and by time, and the node answers that a
 * gateway reads in a turn by time. Node.js reads a thousand ready connections in one turn, and a connection that is answered at
 * once sends its next request in the same turn. So without bounds neither timers nor new connections would get their turn.
 */
import { peerPrefix } from './connections.ts';
import { TurnQueue } from './turn-queue.ts';

/** A turn that has lasted so long begins no further request. */
const turnMsMax = 15;
const handledMaxDefault = 256;

/** Those beyond the bounds are handled in the next turns, of each address one in its turn. */
export function boundTurns<Request>(
  handle: (request: Request) => void,
  addressOf: (request: Request) => string | undefined,
  handledMax = handledMaxDefault,
): (request: Request) => void {
  // The end of a turn is awaited from here on only: a listener that is not busy does not pay for it.
  const watchedFrom = handledMax / 4;
  // Of those that wait, so many begin in a turn: what they do after their first wait is not seen here.
  const resumedMax = Math.max(2, handledMax / 16);
  let handled = 0;
  /** When the first of them began, or the turn whose end is awaited was seen to last. */
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
    // Also where the time was over before the first one: the system had this thread wait, and nothing else would plan a turn.
    if (handled > 0 || waiting.size > 0) plan();
  };
  const isOver = (): boolean => {
    const nowMs = performance.now();
    if (handled === 0) sinceMs = nowMs;
    if (handled >= watchedFrom) plan();
    if (nowMs - sinceMs <= turnMsMax) return false;
    if (isPlanned) return true;
    // This turn may have begun just now, so it has the time once more.
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
