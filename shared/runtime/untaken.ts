/** The wait for a client to take what was written to it. */
import type { Socket } from 'node:net';

interface WritingSocket extends Socket {
  readonly _handle?: { readonly writeQueueSize?: number } | null;
}

/**
 * Ends a connection once its client has taken nothing for so long, or for twice as long; until the interval is cleared.
 * The socket's own timer begins again with each byte that the client sends, so one that reads nothing and sends a byte now and then
 * would keep its connection, and a node, for days. A socket that lasts for many answers may have nothing to be taken.
 */
export function endUntaken(socket: Socket, ms: number, mayOweNothing = false): NodeJS.Timeout {
  let before = leftOf(socket);
  const watch = setInterval(() => {
    const left = leftOf(socket);
    if (left === before && (left > 0 || !mayOweNothing)) socket.destroy();
    if (socket.destroyed) clearInterval(watch);
    before = left;
  }, ms);
  return watch.unref();
}

/** Bytes that the system did not take yet; of a write under way the handle alone knows how many. */
function leftOf(socket: WritingSocket): number {
  return socket.writableLength + (socket._handle?.writeQueueSize ?? 0);
}
