/**
 * Bounds the requests that one connection may have without their responses (pipelining). Node reads up to 64 KiB at once and
 * starts every request in it within one turn of the event loop: some two thousand, which delay all other peers.
 */
import type { RequestListener } from 'node:http';
import type { Socket } from 'node:net';

/** Clients of HTTP/1.1 wait for an answer before their next request; those that do not send few ahead. */
export const pipelinedMax = 32;

/** Ends a connection with the first request beyond the bound; the rest of the chunk is not read. */
export function boundPipelining(handle: RequestListener): RequestListener {
  const unanswered = new WeakMap<Socket, number>();
  return (request, response) => {
    const { socket } = request;
    if (socket.destroyed) return;
    const count = (unanswered.get(socket) ?? 0) + 1;
    if (count > pipelinedMax) {
      socket.destroy();
      return;
    }
    unanswered.set(socket, count);
    response.once('close', () => unanswered.set(socket, (unanswered.get(socket) ?? 1) - 1));
    handle(request, response);
  };
}
