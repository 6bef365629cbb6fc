/**
 * Checks requests per minute and concurrency of each organisation against the bounds of docs/limits.md. It counts what nodes
 * answer, which is never more than what gateways admit.
 */
import { windowStartMs } from '../../shared/decision/decide.ts';
import type { Oracle } from './oracle.ts';
import type { Scheduler } from './scheduler.ts';

/** A request may reach its node this long after it was admitted. Minutes are judged without their first such time. */
const edgeMs = 50;
/** Time for which a fault of a gateway may affect limits: two minutes, and until its successor is known. */
const faultMs = 130_000;

export interface LimitsOptions {
  readonly scheduler: Scheduler;
  readonly oracle: Oracle;
  readonly gateways: number;
  /** Whether a gateway had a fault since then. */
  readonly hadFault: (sinceMs: number) => boolean;
  readonly fail: (what: string) => void;
}

interface Use {
  /** Wall-clock times of requests, ascending. */
  readonly timesMs: number[];
  /** Weights of requests in flight, by prompt. */
  readonly inFlight: Map<string, number>;
}

export class Limits {
  readonly #options: LimitsOptions;
  readonly #uses = new Map<string, Use>();

  constructor(options: LimitsOptions) {
    this.#options = options;
  }

  /** A node has begun to answer a request. */
  began(prompt: string, organisation: string, model: string): void {
    const { scheduler, oracle, fail } = this.#options;
    const nowMs = scheduler.wallMs(scheduler.world.machine);
    const use: Use = this.#uses.get(organisation) ?? { timesMs: [], inFlight: new Map() };
    this.#uses.set(organisation, use);
    use.timesMs.push(nowMs);
    const fromMs = windowStartMs(organisation, nowMs) + edgeMs;
    const count = use.timesMs.filter((ms) => ms >= fromMs).length;
    const rate = this.#bound(organisation, 'requestsPerMinute', 1);
    if (count > rate)
      fail(`${organisation} had ${count} requests in a minute; at most ${rate} may be admitted`);
    const concurrency = this.#bound(organisation, 'concurrency', 4);
    const weight = oracle.states.at(-1)?.models.get(model)?.weight ?? 1;
    use.inFlight.set(prompt, Math.min(weight, concurrency));
    const weights = [...use.inFlight.values()].reduce((sum, each) => sum + each, 0);
    if (weights > concurrency)
      fail(`${organisation} had a weight of ${weights} in flight; at most ${concurrency} may be admitted`);
  }

  /** A node has ended its answer. */
  ended(prompt: string, organisation: string): void {
    this.#uses.get(organisation)?.inFlight.delete(prompt);
  }

  /** Largest use that the documented bounds allow now. `weight` is that of the heaviest request. */
  #bound(organisation: string, name: 'requestsPerMinute' | 'concurrency', weight: number): number {
    const { scheduler, oracle, gateways, hadFault } = this.#options;
    const limits = new Set<number>();
    for (let at = oracle.positionAt(scheduler.nowMs - faultMs); at <= oracle.end; at++) {
      const state = oracle.states[at];
      const tier = state?.tiers.get(state.organisations.get(organisation)?.tier ?? '');
      if (tier !== undefined) limits.add(tier[name]);
    }
    const limit = Math.max(0, ...limits);
    const first = limit < 2 * gateways ? gateways * weight : 0;
    const change = limits.size > 1 ? Math.ceil(limit / 2) : 0;
    const fault = hadFault(scheduler.nowMs - faultMs) ? 2 * limit + 2 * gateways * weight : 0;
    return limit + first + change + fault;
  }
}
