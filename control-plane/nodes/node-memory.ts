/**
 * What a replica remembers of a node that agents keep, beyond any one session: how far its up is damped, and how often it
 * has made the replica do something. These are the bounds of what one node may cause, however its agent behaves.
 */
import type { Beat } from '../../schemas/node-messages.ts';
import { Bucket } from './bucket.ts';
import { type Damped, observe, resumed } from './damping.ts';
import { type Health, type NodeRow, toldOf } from './node-reporter.ts';

export class NodeMemory {
  /** Upgrades that are let through. */
  readonly attaches = new Bucket({ burst: 5, perSecond: 0.5 });
  /** Claims against a replica that lives. */
  readonly takeovers = new Bucket({ burst: 3, perSecond: 1 / 15 });
  /** Reports that it is up, or serves other models. */
  readonly tells = new Bucket({ burst: 5, perSecond: 1 / 10 });
  #damped: Damped | undefined;

  /** Takes one observation; the answer's `told` is what should stand in the log. */
  observe(row: NodeRow, up: boolean): Damped {
    this.#damped = observe(this.#damped ?? resumed(toldOf(row)), up, performance.now());
    return this.#damped;
  }
}

/** The health that a beat speaks of. An engine that is not the registered one would be spoken to in the wrong dialect. */
export function healthOf(beat: Beat, row: NodeRow): Health {
  const { up, dialect, models, windows = {}, imageModels = [], reason } = beat;
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
