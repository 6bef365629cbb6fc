/**
 * Limits of one node that has an agent, beyond any one session: how far its up is damped, and how often it may make the
 * replica do something, however its agent behaves.
 */
import type { Beat } from '../../schemas/node-messages.ts';
import { RateLimit } from '../../shared/runtime/rate-limit.ts';
import { type Damped, observe, resumeDamping } from './damping.ts';
import { type Health, lastReportedUp, type NodeRow } from './node-reporter.ts';

export class NodeLimits {
  /** Upgrades of sockets. */
  readonly attaches = new RateLimit({ burst: 5, perSecond: 0.5 });
  /** Claims of the node from a replica that is alive. */
  readonly takeovers = new RateLimit({ burst: 3, perSecond: 1 / 15 });
  /** Reports that it is up, or serves other models. */
  readonly reports = new RateLimit({ burst: 5, perSecond: 1 / 10 });
  #damped: Damped | undefined;

  /** Records one observation; `reportedUp` of the result is what the log should have. */
  observe(row: NodeRow, up: boolean): Damped {
    this.#damped = observe(this.#damped ?? resumeDamping(lastReportedUp(row)), up, performance.now());
    return this.#damped;
  }
}

/** The health in a heartbeat. A node is down where its engine is not the registered one: requests would use the wrong dialect. */
export function healthOf(heartbeat: Beat, row: NodeRow): Health {
  const { up, dialect, models, windows = {}, imageModels = [], reason } = heartbeat;
  if (!up) return down(reason);
  if (dialect !== undefined && dialect !== row.dialect)
    return down(`the engine is ${dialect}, the node is registered as ${row.dialect}`);
  const served = new Set(models);
  return {
    up,
    models,
    windows: Object.fromEntries(Object.entries(windows).filter(([name]) => served.has(name))),
    imageModels: imageModels.filter((name) => served.has(name)),
  };
}

export function down(reason: string | undefined): Health {
  return { up: false, models: [], windows: {}, imageModels: [], reason };
}
