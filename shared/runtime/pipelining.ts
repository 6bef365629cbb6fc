/**
 * Bounds the requests that one connection may have without their responses (pipelining). Node reads up to 64 KiB at once and
 * starts every request in it within one turn of the event loop: some two thousand, which delay all other peers.
 */
import type { RequestListener, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** Clients of HTTP/1.1 wait for an answer before their next request; those that do not send few ahead. */
export const pipelinedMax = 32;

const unanswered = Symbol('requests without their response');

/** A property of the socket costs less than a WeakMap, which the collector visits each time. */
interface CountedSocket extends Socket {
  [unanswered]?: number;
}

/** Ends a connection with the first request beyond the bound; the rest of the chunk is not read. */
export function boundPipelining(handle: RequestListener): RequestListener {
  return (request, response) => {
    const socket: CountedSocket = request.socket;
    if (socket.destroyed) return;
    const count = (socket[unanswered] ?? 0) + 1;
    if (count > pipelinedMax) {
      socket.destroy();
      return;
    }
    socket[unanswered] = count;
    response.on('close', onClose);
    handle(request, response);
  };
}

function onClose(this: ServerResponse): void {
  const socket: CountedSocket = this.req.socket;
  socket[unanswered] = (socket[unanswered] ?? 1) - 1;
}
