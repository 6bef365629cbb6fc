/**
 * Limits what a node can cause to be written to the log, whatever its agent or engine sends: only configured names, and a
 * limited number of reports and bytes per day. After a withheld report, the next heartbeat or probe tries again.
 */
import { daySeconds } from '../../schemas/durations.ts';
import { RateLimit } from '../../shared/runtime/rate-limit.ts';
import { type DampingState, observe, resumeDamping } from './damping.ts';
import { type Health, lastReportedUp, type NodeRow } from './node-health.ts';

/** Limits on what the log accepts from one node, with or without an agent. Bytes are counted as JSON. */
export const nodeLogLimits = {
  /** Maximum size of one report with its names, windows, image models and rerankers. Further names are omitted. */
  reportBytesMax: 128 * 1024,
  /** Rate limit for a node's reports that it is up or serves other models. */
  reports: { burst: 5, perSecond: 1 / 10 },
  /** Rate limit in bytes for all reports. Reports that the node is down count, but are never withheld. */
  reportBytes: { burst: 256 * 1024, perSecond: (2 * 1024 * 1024) / daySeconds },
} as const;
/** Size in bytes of a report without names, including its share of the commit. */
const frameBytes = 500;
const withheldMs = 3_600_000;

export class NodeLimits {
  /** Rate limit for the agent's attempts to connect. */
  readonly attaches = new RateLimit({ burst: 5, perSecond: 0.5 });
  /** Rate limit for the agent's reports. Nodes without an agent need none, because they are probed only every two seconds. */
  readonly reports = new RateLimit(nodeLogLimits.reports);
  readonly #bytes = new RateLimit(nodeLogLimits.reportBytes);
  #damped: DampingState | undefined;
  #withheldMs = Number.NEGATIVE_INFINITY;

  /** Adds an observation of whether the node is up. `reportedUp` of the result is the health that the log should contain. */
  observe(row: NodeRow, up: boolean): DampingState {
    this.#damped = observe(this.#damped ?? resumeDamping(lastReportedUp(row)), up, performance.now());
    return this.#damped;
  }

  /** Whether the report may be written to the log now. If so, its bytes are counted. */
  admits(health: Health, row: NodeRow): boolean {
    if (!health.up) {
      // An organisation's own node keeps its models in the log while it is down, so their bytes count too.
      this.#bytes.charge(frameBytes + Buffer.byteLength(row.loaded));
      return true;
    }
    const nowMs = performance.now();
    if (this.#bytes.tryAcquire(nowMs, frameBytes + healthBytes(health))) return true;
    this.#withheldMs = nowMs;
    return false;
  }

  /** Whether a report was withheld within the last hour because too few bytes were left. */
  get hasWithheld(): boolean {
    return performance.now() - this.#withheldMs < withheldMs;
  }
}

function healthBytes({ models, windows, imageModels, rerankModels }: Health): number {
  return Buffer.byteLength(JSON.stringify([models, windows, imageModels, rerankModels]));
}
