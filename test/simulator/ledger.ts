/**
 * Records what a simulated node did, so that tests can compare it with the gateway's reports. Counters are exact, but lists
 * keep only the newest entries.
 */
import type { ServerResponse } from 'node:http';
import type { Plan } from '../../tools/simulator/plan.ts';

/** Largest number of entries in a list. */
const exchangesMax = 1000;
const bodiesMax = 100;

/** Outcome of a request: answered in full, spoilt by a fault, or aborted by the client. */
export type Outcome = 'completed' | 'spoilt' | 'aborted';

export interface EndedExchange {
  /** The id in the node's answer, or empty if the node sent none. */
  readonly id: string;
  /** Value of the request's `x-request-id` header, or empty. */
  readonly requestId: string;
  readonly path: string;
  readonly model: string;
  readonly stream: boolean;
  readonly outcome: Outcome;
}

export interface SimStats {
  /** Number of requests begun, except those to `/sim/`. */
  readonly requests: number;
  readonly requestsByPath: Readonly<Record<string, number>>;
  /** Number of requests that have begun but not ended. */
  readonly inFlight: number;
  /** Number of answers written in full while the client was still connected, including the engine's refusals. */
  readonly completed: number;
  /** Number of unspoilt streams whose terminating event was written while the client was still connected. */
  readonly terminated: number;
  /** Number of requests whose connection the client closed first. */
  readonly abortedByClient: number;
  /** Number of requests spoilt by a fault. Answers that were only late do not count. */
  readonly faults: number;
  /** Number of prompt tokens in unspoilt completions, embeddings and rerankings that were answered in full. */
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** Request bodies, the newest last. Empty unless recording is on. */
  readonly bodies: readonly unknown[];
  /** Requests that have ended, the newest last. */
  readonly exchanges: readonly EndedExchange[];
}

/** A request in flight. The server changes it as it learns more about the request. */
export interface LedgerEntry {
  readonly requestId: string;
  readonly path: string;
  model: string;
  stream: boolean;
  fault: boolean;
  /** True once this side has ended the answer. */
  ended: boolean;
  work: Plan['work'];
}

export class Ledger {
  readonly #exchanges: EndedExchange[] = [];
  readonly #bodies: unknown[] = [];
  readonly #byPath = new Map<string, number>();
  readonly #counts = { requests: 0, inFlight: 0, completed: 0, terminated: 0, abortedByClient: 0, faults: 0 };
  readonly #tokens = { promptTokens: 0, completionTokens: 0 };

  /** Counts a request until its response closes. */
  begin(path: string, requestId: string, response: ServerResponse): LedgerEntry {
    const exchange: LedgerEntry = {
      requestId,
      path,
      model: '',
      stream: false,
      fault: false,
      ended: false,
      work: undefined,
    };
    this.#counts.requests += 1;
    this.#counts.inFlight += 1;
    if (this.#byPath.size < 100 || this.#byPath.has(path))
      this.#byPath.set(path, (this.#byPath.get(path) ?? 0) + 1);
    const { socket } = response;
    let written = false;
    // A response emits `finish` even if its last write fails, but its socket is then gone.
    response.prependOnceListener('finish', () => {
      written = socket?.destroyed === false;
    });
    response.once('close', () => {
      exchange.ended ||= response.writableEnded;
      this.#close(exchange, written);
    });
    return exchange;
  }

  record(body: unknown): void {
    this.#bodies.push(body);
    if (this.#bodies.length > bodiesMax) this.#bodies.shift();
  }

  stats(): SimStats {
    return {
      ...this.#counts,
      ...this.#tokens,
      requestsByPath: Object.fromEntries(this.#byPath),
      bodies: [...this.#bodies],
      exchanges: this.#exchanges.slice(-exchangesMax),
    };
  }

  #close(exchange: LedgerEntry, written: boolean): void {
    const counts = this.#counts;
    counts.inFlight -= 1;
    if (exchange.fault) counts.faults += 1;
    const outcome = outcomeOf(exchange, written);
    if (outcome === 'aborted') counts.abortedByClient += 1;
    if (outcome === 'completed') {
      counts.completed += 1;
      if (exchange.stream) counts.terminated += 1;
      this.#tokens.promptTokens += exchange.work?.promptTokens ?? 0;
      this.#tokens.completionTokens += exchange.work?.completionTokens ?? 0;
    }
    const { requestId, path, model, stream } = exchange;
    this.#exchanges.push({ id: exchange.work?.id ?? '', requestId, path, model, stream, outcome });
    if (this.#exchanges.length >= 2 * exchangesMax) this.#exchanges.splice(0, exchangesMax);
  }
}

function outcomeOf(exchange: LedgerEntry, written: boolean): Outcome {
  if (!exchange.ended) return 'aborted';
  if (exchange.fault) return 'spoilt';
  return written ? 'completed' : 'aborted';
}
