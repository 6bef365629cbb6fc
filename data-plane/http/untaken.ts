/** Closes connections whose clients no longer read what is written to them. */
import type { Socket } from 'node:net';

interface WritingSocket extends Socket {
  readonly _handle?: { readonly bytesWritten: number; readonly writeQueueSize: number } | null;
  /** Socket underneath a TLS socket. Only this inner socket knows how many bytes the system has accepted. */
  readonly _parent?: WritingSocket | null;
}

/**
 * Watches a connection, and destroys it once the client has accepted nothing for a time between `ms` and twice `ms`. Clear
 * the interval to stop. The socket's own time-out cannot be used, because each byte from the client restarts it, even if the
 * client reads nothing.
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

/** Number of written bytes that the system has accepted. Only the socket's handle knows it while a write is pending. */
function acceptedBytes({ _handle }: WritingSocket): number {
  return _handle ? _handle.bytesWritten - _handle.writeQueueSize : 0;
}
