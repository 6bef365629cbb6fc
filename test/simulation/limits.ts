/**
 * Checks each organisation's requests per minute and requests in flight against the bounds in docs/limits.md. Counts the
 * requests that nodes answer, which are never more than gateways admit.
 */
import { windowStartMs } from '../../shared/decision/decide.ts';
import type { Oracle } from './oracle.ts';
import type { Scheduler } from './scheduler.ts';

/**
 * Longest time between the admission of a request and its arrival at a node, in ms. Requests that arrive in the first
 * `edgeMs` of a minute are not counted, because they may have been admitted in the minute before.
 */
const edgeMs = 50;
/** A fault affects minutes that begin this long after it, and requests in flight for twice this time. */
const faultMs = 15_000;

export interface LimitsOptions {
  readonly scheduler: Scheduler;
  readonly oracle: Oracle;
  readonly gateways: number;
  /** Whether any gateway has had a fault since this time. */
  readonly hadFault: (sinceMs: number) => boolean;
  readonly fail: (what: string) => void;
}

interface Use {
  /** Wall-clock times at which nodes began to answer the organisation's requests, in ascending order. */
  readonly timesMs: number[];
  /** Weight of each request in flight, keyed by its prompt. */
  readonly inFlight: Map<string, number>;
}

export class Limits {
  readonly #options: LimitsOptions;
  readonly #uses = new Map<string, Use>();

  constructor(options: LimitsOptions) {
    this.#options = options;
  }

  /** Counts a request that a node has begun to answer, and fails if the organisation's limits do not allow it. */
  began(prompt: string, organisation: string, model: string): void {
    const { scheduler, oracle, fail } = this.#options;
    const nowMs = scheduler.wallMs(scheduler.world.machine);
    const use: Use = this.#uses.get(organisation) ?? { timesMs: [], inFlight: new Map() };
    this.#uses.set(organisation, use);
    use.timesMs.push(nowMs);
    const fromMs = windowStartMs(organisation, nowMs);
    const count = use.timesMs.filter((ms) => ms >= fromMs + edgeMs).length;
    const rate = this.#bound(organisation, 'requestsPerMinute', 1, nowMs - fromMs + faultMs);
    if (count > rate)
      fail(`${organisation} had ${count} requests in a minute; at most ${rate} may be admitted`);
    const concurrency = this.#bound(organisation, 'concurrency', 4, 2 * faultMs);
    const weight = oracle.states.at(-1)?.models.get(model)?.weight ?? 1;
    use.inFlight.set(prompt, Math.min(weight, concurrency));
    const weights = [...use.inFlight.values()].reduce((sum, each) => sum + each, 0);
    if (weights > concurrency)
      fail(`${organisation} had a weight of ${weights} in flight; at most ${concurrency} may be admitted`);
  }

  /** Notes that a node has finished answering the request. */
  ended(prompt: string, organisation: string): void {
    this.#uses.get(organisation)?.inFlight.delete(prompt);
  }

  /**
   * Largest use that the documented bounds allow now. `weight` is that of the heaviest request. Faults and changes of the last
   * `pastMs` count.
   */
  #bound(
    organisation: string,
    name: 'requestsPerMinute' | 'concurrency',
    weight: number,
    pastMs: number,
  ): number {
    const { scheduler, oracle, gateways, hadFault } = this.#options;
    const sinceMs = scheduler.nowMs - pastMs;
    const limits = new Set<number>();
    for (let at = oracle.positionAt(sinceMs); at <= oracle.end; at++) {
      const state = oracle.states[at];
      const tier = state?.tiers.get(state.organisations.get(organisation)?.tier ?? '');
      if (tier !== undefined) limits.add(tier[name]);
    }
    const limit = Math.max(0, ...limits);
    const first = limit < 2 * gateways ? gateways * weight : 0;
    const change = limits.size > 1 ? Math.ceil(limit / 2) : 0;
    const fault = hadFault(sinceMs) ? 2 * limit + 2 * gateways * weight : 0;
    return limit + first + change + fault;
  }
}
