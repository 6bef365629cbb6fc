/**
 * Bounds the requests that a listener handles in one turn of the event loop. Node reads a thousand ready connections in a turn, and
 * each that is answered at once sends its next request within it, so that no timer and no new connection would get its turn.
 */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Rounds } from './rounds.ts';

/** Those beyond the bound are handled in the next turns, of each connection one in its turn. */
export function boundTurns(handle: RequestListener, handledMax: number): RequestListener {
  // The end of a turn is awaited from here on only: a listener that is not busy does not pay for it.
  const watchedFrom = handledMax / 4;
  let handled = 0;
  const waiting = new Rounds<Socket, readonly [IncomingMessage, ServerResponse]>();
  let isPlanned = false;
  const plan = (): void => {
    if (isPlanned) return;
    isPlanned = true;
    setImmediate(nextTurn);
  };
  const nextTurn = (): void => {
    isPlanned = false;
    for (handled = 0; handled < handledMax && waiting.size > 0; handled++) {
      const [request, response] = waiting.first();
      waiting.shift();
      handle(request, response);
    }
    if (handled > 0) plan();
  };
  return (request, response) => {
    if (handled >= watchedFrom) plan();
    if (handled >= handledMax || waiting.size > 0) waiting.add(request.socket, [request, response]);
    else {
      handled++;
      handle(request, response);
    }
  };
}
