/**
 * The plan of a spoilt answer, and the code that sends it. The code can end a connection by force, hold it open, or write raw
 * bytes instead of an HTTP answer.
 */
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { emit, emitParts, type Outlet } from '../../tools/simulator/emission.ts';
import { doneFrame, type Plan } from '../../tools/simulator/plan.ts';

export interface SpoiltPlan extends Plan {
  /**
   * How the connection ends after the parts. `cut` closes it with the answer unfinished, `reset` does so with RST, and `hold`
   * keeps it open. If undefined, the answer ends cleanly.
   */
  readonly end?: 'cut' | 'reset' | 'hold';
  /** Time between the comments that are sent while the connection is held open, in ms. */
  readonly commentEveryMs?: number;
  /** The parts are raw bytes of the connection, one per character, including the head. Status and headers are ignored. */
  readonly isRaw?: boolean;
}

/** Delay before a reset, in ms. A reset directly after the last bytes would look like a clean end to the client. */
const resetAfterMs = 20;
const comment = ': still here\n\n';

/**
 * Sends the answer. Calls `beforeEnd` when the node is about to end the connection, so that the client is not blamed for the
 * end.
 */
export function emitSpoilt(plan: SpoiltPlan, response: ServerResponse, beforeEnd: () => void): void {
  const { socket } = response;
  if (socket === null || socket.destroyed) return;
  if (!plan.isRaw && plan.end === undefined) {
    emit(plan, response);
    return;
  }
  if (!plan.isRaw) {
    response.writeHead(plan.status, plan.headers);
    response.flushHeaders();
  }
  emitParts(plan, response, socket, outletOf(plan, response, socket, beforeEnd));
}

function outletOf(plan: SpoiltPlan, response: ServerResponse, socket: Socket, beforeEnd: () => void): Outlet {
  return {
    write: (text) => (plan.isRaw ? socket.write(text, 'latin1') : response.write(text)),
    onDrained: (step) => (plan.isRaw ? socket : response).once('drain', step),
    end: () => {
      if (plan.end === 'hold') {
        if (plan.commentEveryMs !== undefined) commentEvery(plan.commentEveryMs, response, socket);
        return;
      }
      beforeEnd();
      if (plan.end === 'reset') resetAfterLastBytes(socket);
      else socket.destroySoon();
    },
  };
}

function resetAfterLastBytes(socket: Socket): void {
  if (socket.bytesWritten === 0) reset(socket);
  else socket.write('', () => setTimeout(() => reset(socket), resetAfterMs).unref());
}

/**
 * Resets a connection. Node cannot reset a TLS socket, so a TLS connection is cut instead. Clients cannot tell the
 * difference, because there is no close_notify.
 */
function reset(socket: Socket): void {
  if (socket instanceof TLSSocket) socket.destroy();
  else socket.resetAndDestroy();
}

function commentEvery(everyMs: number, response: ServerResponse, socket: Socket): void {
  setTimeout(() => {
    if (socket.destroyed) return;
    response.write(comment);
    commentEvery(everyMs, response, socket);
  }, everyMs).unref();
}

export function* take(parts: Iterable<string>, count: number): Generator<string> {
  let taken = 0;
  if (count === 0) return;
  for (const part of parts) {
    yield part;
    taken += 1;
    if (taken >= count) return;
  }
}

export function* withoutDone(parts: Iterable<string>): Generator<string> {
  for (const part of parts) if (part !== doneFrame) yield part;
}

export function* joined(...lists: readonly Iterable<string>[]): Generator<string> {
  for (const list of lists) yield* list;
}
