/** Limits pipelined requests per connection. Node would start up to two thousand in one turn and delay all other peers. */
import type { RequestListener, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** Maximum number of pending responses per connection. Most HTTP/1.1 clients send one request at a time, and others a few. */
export const pipelinedMax = 32;

const owed = Symbol('answers that are owed, in the order of their requests');

/** A socket that stores its pending responses. A property costs the garbage collector less than a `WeakMap`. */
interface OwingSocket extends Socket {
  /** Responses that are still to be sent, in the order of their requests. There is almost always just one. */
  [owed]?: ServerResponse[];
}

/** Wraps a request handler. At the first request beyond the limit, closes the connection and reads nothing more from it. */
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
    // After the last response has been sent, only count requests, because Node keeps each one until the connection ends.
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
 * Whether unparsable input may be answered with a refusal. This holds if no response is pending, or only the one to the
 * request whose body is broken. Otherwise the client would take the refusal for a response to an earlier request.
 */
export function mayRefuse(socket: OwingSocket): boolean {
  const all = socket[owed] ?? [];
  const [first, second] = all;
  if (first === undefined) return true;
  if (second === undefined && !first.headersSent && !first.req.complete) return true;
  const last = all.findLast(({ req: { complete } }) => complete);
  if (last === undefined) socket.destroy();
  else if (last.listenerCount('close', endSocket) === 0) {
    // Tell the client not to send another request, because the connection is about to end.
    if (!last.headersSent) last.setHeader('connection', 'close');
    last.once('close', endSocket);
  }
  return false;
}

function endSocket(this: ServerResponse): void {
  this.req.socket.destroySoon();
}
