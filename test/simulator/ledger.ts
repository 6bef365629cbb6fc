/**
 * Records what a simulated node did; a test compares it with what the gateway reports.
 * Counters are exact; the lists keep the newest entries only.
 */
import type { ServerResponse } from 'node:http';
import type { Plan } from '../../tools/simulator/plan.ts';

/** Entries that a list keeps. */
const exchangesMax = 1000;
const bodiesMax = 100;

/** How a request ended: answered in full, spoilt by a fault, or aborted by the client. */
export type Outcome = 'completed' | 'spoilt' | 'aborted';

/** A request that has ended. */
export interface EndedExchange {
  /** The id in the node's answer; empty where it made none. */
  readonly id: string;
  /** `x-request-id` of the request, or empty. */
  readonly requestId: string;
  readonly path: string;
  readonly model: string;
  readonly stream: boolean;
  readonly outcome: Outcome;
}

export interface SimStats {
  /** Requests begun, those of `/sim/` left out. */
  readonly requests: number;
  readonly requestsByPath: Readonly<Record<string, number>>;
  /** Requests begun and not ended. */
  readonly inFlight: number;
  /** Answers written in full to a client still connected, refusals of the engine among them. */
  readonly completed: number;
  /** Streams of which the terminator was written, unspoilt, to a client still connected. */
  readonly terminated: number;
  /** Requests whose connection the client ended first. */
  readonly abortedByClient: number;
  /** Requests spoilt by a fault; one that was merely late is not spoilt. */
  readonly faults: number;
  /** Tokens of the unspoilt completions, embeddings and rerankings that were written in full. */
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** Bodies of requests, the newest last; empty unless recording is on. */
  readonly bodies: readonly unknown[];
  /** Ended requests, the newest last. */
  readonly exchanges: readonly EndedExchange[];
}

/** One request under way. Mutable: the server fills it in as it learns. */
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

  /** Counts a request from here to the close of its response. */
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
    // A response finishes, too, when its last write fails; the socket is gone by then.
    response.prependOnceListener('finish', () => {
      written = socket?.destroyed === false;
    });
    response.once('close', () => {
      exchange.ended ||= response.writableEnded;
      this.#close(exchange, written);
    });
    return exchange;
  }

  /** Keeps a body. */
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
