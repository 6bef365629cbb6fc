/** Keeps a fault of one exchange from ending the simulated node. */
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';

/** Runs a step of an exchange; where it throws, the exchange ends with 500, or is cut if it has begun. */
export function guarded(response: ServerResponse, step: () => void): void {
  try {
    step();
  } catch {
    if (response.headersSent || response.destroyed) response.destroy();
    else response.writeHead(500).end();
  }
}

/** Ends a connection with a reset. Node resets no TLS socket, which is cut instead: without a close_notify, it reads alike. */
export function reset(socket: Socket): void {
  if (socket instanceof TLSSocket) socket.destroy();
  else socket.resetAndDestroy();
}
