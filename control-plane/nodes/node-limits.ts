/**
 * What one node can cause to be written into the log, whatever its agent sends and its engine answers: names that somebody set up,
 * in reports of bounded size, so many and so many bytes a day. A report that is withheld is compared again at the next heartbeat
 * or probe, so a model that comes to the catalog later is served then.
 */
import { daySeconds } from '../../schemas/durations.ts';
import { RateLimit } from '../../shared/runtime/rate-limit.ts';
import { type Damped, observe, resumeDamping } from './damping.ts';
import { type Health, lastReportedUp, type NodeRow } from './node-health.ts';

/** All that the log takes of one node, for agents and probed engines alike. Bytes are those of JSON. */
export const nodeLogLimits = {
  /** Names, windows, images and rerankers of one report; names beyond it are left out. */
  reportBytesMax: 128 * 1024,
  /** Reports that it is up, or serves other models. */
  reports: { burst: 5, perSecond: 1 / 10 },
  /** Of these reports, and of those that it is down, which are never withheld. */
  reportBytes: { burst: 256 * 1024, perSecond: (2 * 1024 * 1024) / daySeconds },
} as const;
/** Of a report without names, in its commit. */
const frameBytes = 500;
const withheldMs = 3_600_000;

export class NodeLimits {
  /** Upgrades of sockets. */
  readonly attaches = new RateLimit({ burst: 5, perSecond: 0.5 });
  /** Of what an agent reports; an engine is probed every two seconds. */
  readonly reports = new RateLimit(nodeLogLimits.reports);
  readonly #bytes = new RateLimit(nodeLogLimits.reportBytes);
  #damped: Damped | undefined;
  #withheldMs = Number.NEGATIVE_INFINITY;

  /** Records one observation; `reportedUp` of the result is what the log should have. */
  observe(row: NodeRow, up: boolean): Damped {
    this.#damped = observe(this.#damped ?? resumeDamping(lastReportedUp(row)), up, performance.now());
    return this.#damped;
  }

  /** Have these bytes a place in the log now? Then they are counted. */
  admits(health: Health, row: NodeRow): boolean {
    if (!health.up) {
      // An organisation's node keeps its models in the log.
      this.#bytes.charge(frameBytes + Buffer.byteLength(row.loaded));
      return true;
    }
    const nowMs = performance.now();
    if (this.#bytes.tryAcquire(nowMs, frameBytes + sizeOf(health))) return true;
    this.#withheldMs = nowMs;
    return false;
  }

  /** Was a report too large for what is left of the day, in the last hour? */
  get hasWithheld(): boolean {
    return performance.now() - this.#withheldMs < withheldMs;
  }
}

function sizeOf({ models, windows, imageModels, rerankModels }: Health): number {
  return Buffer.byteLength(JSON.stringify([models, windows, imageModels, rerankModels]));
}
