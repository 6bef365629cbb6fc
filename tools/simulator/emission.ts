/** Writes a planned response to a connection as fast as the client reads. Stops once the client has disconnected. */
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { guarded } from './guarded.ts';
import type { Plan } from './plan.ts';

/** Maximum number of characters in one write, if several parts are due at the same time. */
const writeCharactersMax = 16_384;

/** Destination of the text that an emission writes. */
export interface Outlet {
  /** Writes the text. Returns false if the client must read before the next write. */
  write(text: string): boolean;
  onDrained(step: () => void): void;
  end(): void;
}

/** Starts sending a planned response. */
export function emit(plan: Plan, response: ServerResponse): void {
  const { socket } = response;
  if (socket === null || socket.destroyed) return;
  if (!plan.stream) {
    later(plan.firstPartMs, () => guarded(response, () => endWhole(plan, response)));
    return;
  }
  response.writeHead(plan.status, plan.headers);
  if (plan.firstPartMs > 0) response.flushHeaders();
  emitParts(plan, response, socket, {
    write: (text) => response.write(text),
    onDrained: (step) => response.once('drain', step),
    end: () => response.end(),
  });
}

/** Writes the parts of a plan at the planned pace, and then ends the response. */
export function emitParts(plan: Plan, response: ServerResponse, socket: Socket, outlet: Outlet): void {
  new Emission(plan, response, socket, outlet).step();
}

/** Runs a step after a delay. The timer is never cancelled, because each step checks its connection when it runs. */
function later(waitMs: number, step: () => void): void {
  if (waitMs === 0) step();
  else setTimeout(step, waitMs).unref();
}

function endWhole(plan: Plan, response: ServerResponse): void {
  if (response.destroyed) return;
  const body = [...plan.parts].join('');
  response.writeHead(plan.status, { ...plan.headers, 'content-length': Buffer.byteLength(body) });
  response.end(body);
}

class Emission {
  readonly #plan: Plan;
  readonly #response: ServerResponse;
  readonly #socket: Socket;
  readonly #outlet: Outlet;
  readonly #parts: Iterator<string>;
  #next: IteratorResult<string, unknown>;
  #dueMs: number;

  constructor(plan: Plan, response: ServerResponse, socket: Socket, outlet: Outlet) {
    this.#plan = plan;
    this.#response = response;
    this.#socket = socket;
    this.#outlet = outlet;
    this.#parts = plan.parts[Symbol.iterator]();
    this.#next = this.#parts.next();
    this.#dueMs = performance.now() + plan.firstPartMs;
  }

  /** Writes all parts that are due. Then it waits for the next part or for the client, or ends the response. */
  readonly step = (): void => guarded(this.#response, () => this.#step());

  #step(): void {
    while (!this.#socket.destroyed) {
      const { text, next } = this.#gather();
      const flows = text === '' || this.#outlet.write(text);
      if (next === 'end') {
        this.#outlet.end();
        return;
      }
      if (!flows) {
        this.#outlet.onDrained(this.step);
        return;
      }
      if (next === 'wait') {
        setTimeout(this.step, this.#dueMs - performance.now()).unref();
        return;
      }
    }
  }

  /** Joins the parts that are due, up to the maximum size of one write. */
  #gather(): { text: string; next: 'more' | 'wait' | 'end' } {
    const now = performance.now();
    let text = '';
    while (text.length < writeCharactersMax) {
      // The end is sent with the last part, because a client may disconnect once it has the terminator.
      if (this.#next.done) return { text, next: 'end' };
      if (this.#dueMs > now) return { text, next: 'wait' };
      this.#dueMs += this.#plan.gapMs;
      text += this.#next.value;
      this.#next = this.#parts.next();
    }
    return { text, next: 'more' };
  }
}
