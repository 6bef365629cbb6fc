/** Limits one connection's pipelined requests. Node would start up to two thousand in one turn and delay all other peers. */
import type { RequestListener, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** Maximum number of pending responses. Most HTTP/1.1 clients wait for each response; the others send few ahead. */
export const pipelinedMax = 32;

const owed = Symbol('answers that are owed, in the order of their requests');

/** A socket with its pending responses. A property is cheaper than a WeakMap for the garbage collector. */
interface OwingSocket extends Socket {
  /** Pending responses in request order; almost always one. */
  [owed]?: ServerResponse[];
}

/** Closes a connection at the first request beyond the limit. The rest of the chunk is not read. */
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
    // After the last response, requests are only counted, because Node keeps each one until the connection ends.
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
 * Whether unparsable input may be answered with a refusal: only if no response is pending, or only the one to the request
 * whose body is broken. Otherwise the client would mistake the refusal for a pending response.
 */
export function mayRefuse(socket: OwingSocket): boolean {
  const all = socket[owed] ?? [];
  const [first, second] = all;
  if (first === undefined) return true;
  if (second === undefined && !first.headersSent && !first.req.complete) return true;
  const last = all.findLast(({ req: { complete } }) => complete);
  if (last === undefined) socket.destroy();
  else if (last.listenerCount('close', endSocket) === 0) {
    // Otherwise the client would send its next request on a connection that is about to end.
    if (!last.headersSent) last.setHeader('connection', 'close');
    last.once('close', endSocket);
  }
  return false;
}

function endSocket(this: ServerResponse): void {
  this.req.socket.destroySoon();
}
