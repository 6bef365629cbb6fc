/**
 * Writes a plan to a connection: head, paced parts, end. Writes no faster than the client reads, and stops once the client has
 * disconnected.
 */
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { guarded, reset } from './guarded.ts';
import type { Plan } from './plan.ts';

/** Text joined into one write where several parts are due at once, characters. */
const writeCharactersMax = 16_384;
/** A reset on the heels of the last bytes reads like a clean end on the other side. */
const resetAfterMs = 20;
const comment = ': still here\n\n';

/** Starts the answer. `beforeEnd` runs when this side ends it, so that the end is not taken for the client's. */
export function emit(plan: Plan, response: ServerResponse, beforeEnd: () => void = () => {}): void {
  const { socket } = response;
  if (socket === null || socket.destroyed) return;
  if (!plan.raw && !plan.stream && plan.end === 'end') {
    later(plan.firstPartMs, () => guarded(response, () => endWhole(plan, response, beforeEnd)));
    return;
  }
  if (!plan.raw) {
    response.writeHead(plan.status, plan.headers);
    if (plan.firstPartMs > 0 || plan.end !== 'end') response.flushHeaders();
  }
  new Emission(plan, response, socket, beforeEnd).step();
}

/** A step looks whether its connection is still there, so none is called off. */
function later(waitMs: number, step: () => void): void {
  if (waitMs === 0) step();
  else setTimeout(step, waitMs).unref();
}

function endWhole(plan: Plan, response: ServerResponse, beforeEnd: () => void): void {
  if (response.destroyed) return;
  const body = [...plan.parts].join('');
  beforeEnd();
  response.writeHead(plan.status, { ...plan.headers, 'content-length': Buffer.byteLength(body) });
  response.end(body);
}

class Emission {
  readonly #plan: Plan;
  readonly #response: ServerResponse;
  readonly #socket: Socket;
  readonly #beforeEnd: () => void;
  readonly #parts: Iterator<string>;
  #next: IteratorResult<string, unknown>;
  #dueMs: number;

  constructor(plan: Plan, response: ServerResponse, socket: Socket, beforeEnd: () => void) {
    this.#plan = plan;
    this.#response = response;
    this.#socket = socket;
    this.#beforeEnd = beforeEnd;
    this.#parts = plan.parts[Symbol.iterator]();
    this.#next = this.#parts.next();
    this.#dueMs = performance.now() + plan.firstPartMs;
  }

  /** Writes what is due, then waits for the time or for the client, or ends. */
  readonly step = (): void => guarded(this.#response, () => this.#step());

  #step(): void {
    while (!this.#socket.destroyed) {
      const { text, next } = this.#gather();
      const flows = text === '' || this.#write(text);
      if (next === 'end') {
        this.#end();
        return;
      }
      if (!flows) {
        (this.#plan.raw ? this.#socket : this.#response).once('drain', this.step);
        return;
      }
      if (next === 'wait') {
        setTimeout(this.step, this.#dueMs - performance.now()).unref();
        return;
      }
    }
  }

  /** The parts that are due, as far as they fit into one write. */
  #gather(): { text: string; next: 'more' | 'wait' | 'end' } {
    const now = performance.now();
    let text = '';
    while (text.length < writeCharactersMax) {
      // The end comes with the last part: who has its terminator may leave at once, and the answer was whole.
      if (this.#next.done) return { text, next: 'end' };
      if (this.#dueMs > now) return { text, next: 'wait' };
      this.#dueMs += this.#plan.gapMs;
      text += this.#next.value;
      this.#next = this.#parts.next();
    }
    return { text, next: 'more' };
  }

  #write(text: string): boolean {
    return this.#plan.raw ? this.#socket.write(text, 'latin1') : this.#response.write(text);
  }

  #end(): void {
    const { end, commentEveryMs } = this.#plan;
    if (end === 'hold') {
      if (commentEveryMs !== undefined) this.#comment(commentEveryMs);
      return;
    }
    this.#beforeEnd();
    if (end === 'reset') this.#reset();
    else if (end === 'cut' || this.#plan.raw) this.#socket.destroySoon();
    else this.#response.end();
  }

  #reset(): void {
    const socket = this.#socket;
    if (socket.bytesWritten === 0) reset(socket);
    else socket.write('', () => later(resetAfterMs, () => reset(socket)));
  }

  #comment(everyMs: number): void {
    later(everyMs, () => {
      if (this.#socket.destroyed) return;
      this.#response.write(comment);
      this.#comment(everyMs);
    });
  }
}
