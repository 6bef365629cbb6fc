/**
 * Bounds the requests that one connection may have without their responses (pipelining). Node reads up to 64 KiB at once and
 * starts every request in it within one turn of the event loop: some two thousand, which delay all other peers.
 */
import type { RequestListener, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** Clients of HTTP/1.1 wait for an answer before their next request; those that do not send few ahead. */
export const pipelinedMax = 32;

const owed = Symbol('answers that are owed, in the order of their requests');

/** A property of the socket costs less than a WeakMap, which the collector visits each time. */
interface OwingSocket extends Socket {
  /** Almost always one. */
  [owed]?: ServerResponse[];
}

/** Ends a connection with the first request beyond the bound; the rest of the chunk is not read. */
export function boundPipelining(handle: RequestListener): RequestListener {
  return (request, response) => {
    const socket: OwingSocket = request.socket;
    if (socket.destroyed) return;
    socket[owed] ??= [];
    if (socket[owed].length >= pipelinedMax) {
      socket.destroy();
      return;
    }
    socket[owed].push(response);
    response.on('close', onClose);
    // Behind the last answer of the connection nothing is begun, but counted all the same: Node keeps each until the connection ends.
    if (!socket.writableEnded) handle(request, response);
  };
}

function onClose(this: ServerResponse): void {
  const socket: OwingSocket = this.req.socket;
  const all = socket[owed] ?? [];
  if (all.length === 1) all.pop();
  else all.splice(all.indexOf(this), 1);
}

/**
 * May a refusal of what the parser could not read be written: is nothing owed, or only the answer to the very request whose body
 * is broken? Otherwise it would be taken for an owed answer, or cut one: requests that came whole are answered, and
 * then the connection ends.
 */
export function mayRefuse(socket: OwingSocket): boolean {
  const all = socket[owed] ?? [];
  const [first, second] = all;
  if (first === undefined) return true;
  if (second === undefined && !first.headersSent && !first.req.complete) return true;
  const last = all.findLast(({ req: { complete } }) => complete);
  if (last === undefined) socket.destroy();
  else if (last.listenerCount('close', endSocket) === 0) {
    // Or its client sends the next request on a connection that is about to end.
    if (!last.headersSent) last.setHeader('connection', 'close');
    last.once('close', endSocket);
  }
  return false;
}

function endSocket(this: ServerResponse): void {
  this.req.socket.destroySoon();
}
