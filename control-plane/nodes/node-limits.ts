/**
 * Bounds what a node can cause to be written into the log, whatever its agent or engine sends: only configured names, and a
 * bounded number of reports and bytes per day. A withheld report is compared again at the next heartbeat or probe.
 */
import { daySeconds } from '../../schemas/durations.ts';
import { RateLimit } from '../../shared/runtime/rate-limit.ts';
import { type Damped, observe, resumeDamping } from './damping.ts';
import { type Health, lastReportedUp, type NodeRow } from './node-health.ts';

/** Everything that the log accepts from one node, with or without an agent. Bytes are counted as JSON. */
export const nodeLogLimits = {
  /** Size of one report with its names, windows, images and rerankers. Further names are left out. */
  reportBytesMax: 128 * 1024,
  /** Rate of reports that the node is up or serves other models. */
  reports: { burst: 5, perSecond: 1 / 10 },
  /** Bytes of these reports and of reports that the node is down. The latter are never withheld. */
  reportBytes: { burst: 256 * 1024, perSecond: (2 * 1024 * 1024) / daySeconds },
} as const;
/** Size of a report without names, including its share of the commit. */
const frameBytes = 500;
const withheldMs = 3_600_000;

export class NodeLimits {
  /** Rate of socket upgrades. */
  readonly attaches = new RateLimit({ burst: 5, perSecond: 0.5 });
  /** Rate of an agent's reports. An engine without an agent is probed every two seconds. */
  readonly reports = new RateLimit(nodeLogLimits.reports);
  readonly #bytes = new RateLimit(nodeLogLimits.reportBytes);
  #damped: Damped | undefined;
  #withheldMs = Number.NEGATIVE_INFINITY;

  /** Records one observation. `reportedUp` of the result is the health that the log should contain. */
  observe(row: NodeRow, up: boolean): Damped {
    this.#damped = observe(this.#damped ?? resumeDamping(lastReportedUp(row)), up, performance.now());
    return this.#damped;
  }

  /** Whether the log accepts this report now. If so, its bytes are counted. */
  admits(health: Health, row: NodeRow): boolean {
    if (!health.up) {
      // An organisation's node keeps its models in the log while down.
      this.#bytes.charge(frameBytes + Buffer.byteLength(row.loaded));
      return true;
    }
    const nowMs = performance.now();
    if (this.#bytes.tryAcquire(nowMs, frameBytes + healthBytes(health))) return true;
    this.#withheldMs = nowMs;
    return false;
  }

  /** Whether a report in the last hour was too large for the remaining bytes of the day. */
  get hasWithheld(): boolean {
    return performance.now() - this.#withheldMs < withheldMs;
  }
}

function healthBytes({ models, windows, imageModels, rerankModels }: Health): number {
  return Buffer.byteLength(JSON.stringify([models, windows, imageModels, rerankModels]));
}
