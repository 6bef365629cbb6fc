/** Closes connections whose clients stop reading what was written to them. */
import type { Socket } from 'node:net';

interface WritingSocket extends Socket {
  readonly _handle?: { readonly bytesWritten: number; readonly writeQueueSize: number } | null;
  /** The socket below TLS, the only one for which the system reports accepted bytes. */
  readonly _parent?: WritingSocket | null;
}

/**
 * Destroys a connection once its client has accepted nothing for `ms`, or at most twice as long. Clearing the interval stops
 * the watch. The socket's own timer does not help: it restarts with each byte from a client that reads nothing.
 */
export function destroyStalledWriter(socket: Socket, ms: number): NodeJS.Timeout {
  const { _parent }: WritingSocket = socket;
  const below: WritingSocket = _parent ?? socket;
  let before = acceptedBytes(below);
  const watch = setInterval(() => {
    const taken = acceptedBytes(below);
    if (taken === before) socket.destroy();
    if (socket.destroyed) clearInterval(watch);
    before = taken;
  }, ms);
  return watch.unref();
}

/** Bytes that the system accepted. Only the handle knows how much of a pending write that includes. */
function acceptedBytes({ _handle }: WritingSocket): number {
  return _handle ? _handle.bytesWritten - _handle.writeQueueSize : 0;
}
