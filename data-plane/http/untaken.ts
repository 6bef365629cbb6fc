/** The wait for a client to take what was written to it. */
import type { Socket } from 'node:net';

interface WritingSocket extends Socket {
  readonly _handle?: { readonly bytesWritten: number; readonly writeQueueSize: number } | null;
  /** The socket below TLS, of which alone the system says what was taken. */
  readonly _parent?: WritingSocket | null;
}

/**
 * Ends a connection once its client has taken nothing for so long, or for twice as long; until the interval is cleared.
 * The socket's own timer begins again with each byte that the client sends, so one that reads nothing and sends a byte now and then
 * would keep its connection, and a node, for days.
 */
export function endUntaken(socket: Socket, ms: number): NodeJS.Timeout {
  const { _parent }: WritingSocket = socket;
  const below: WritingSocket = _parent ?? socket;
  let before = takenOf(below);
  const watch = setInterval(() => {
    const taken = takenOf(below);
    if (taken === before) socket.destroy();
    if (socket.destroyed) clearInterval(watch);
    before = taken;
  }, ms);
  return watch.unref();
}

/** Bytes that the system took; of a write under way the handle alone knows how many. */
function takenOf({ _handle }: WritingSocket): number {
  return _handle ? _handle.bytesWritten - _handle.writeQueueSize : 0;
}
