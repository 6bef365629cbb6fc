/**
 * Looks after the nodes that have no agent: each is owned by one replica, which probes it every two seconds.
 * Three misses are a down. A node whose owner has been silent for five seconds is claimed by whoever notices first.
 */
import { setMaxListeners } from 'node:events';
import type { Dialect } from '../../schemas/names.ts';
import { ImageModels } from '../../shared/engines/image-models.ts';
import { type Probed, probe } from '../../shared/engines/probe.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { sleep } from '../../shared/runtime/retry.ts';
import { type Damped, observe, resumed } from './damping.ts';
import { down } from './node-memory.ts';
import { type NodeReporter, type NodeRow, toldOf } from './node-reporter.ts';
import type { Owners } from './replica-liveness.ts';

const probeIntervalMs = 2000;
const missesUntilDown = 3;
const lookIntervalMs = 500;

export interface KeeperOptions {
  readonly reporter: NodeReporter;
  readonly owners: Owners;
  /** Did the fold of this replica stop for good? Then it can report nothing, and others take its nodes. */
  readonly isHalted: () => boolean;
  /** The node's own credential by its name; undefined where this replica was not given it. */
  readonly credential: (name: string) => string | undefined;
  readonly logger: Logger;
}

export class NodeKeeper {
  readonly #options: KeeperOptions;
  readonly #stop = new AbortController();
  readonly #probed = new Map<string, Promise<void>>();
  #looking: Promise<void> | undefined;

  constructor(options: KeeperOptions) {
    this.#options = options;
    // Every node waits on it; ten are no sign of a leak.
    setMaxListeners(0, this.#stop.signal);
  }

  start(): void {
    this.#looking = this.#look();
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#looking;
    await Promise.allSettled(this.#probed.values());
  }

  async #look(): Promise<void> {
    const { signal } = this.#stop;
    const { reporter, owners, isHalted } = this.#options;
    while (!signal.aborted && !isHalted()) {
      const gone = owners.gone();
      for (const node of reporter.nodes('probed')) {
        const { id } = node;
        if (this.#probed.has(id) || !(node.owner === reporter.owner || gone(node.owner))) continue;
        const keeping = this.#keep(id).finally(() => this.#probed.delete(id));
        this.#probed.set(id, keeping);
      }
      await sleep(lookIntervalMs, signal);
    }
  }

  /** Probes one node until it is gone or another replica owns it. */
  async #keep(id: string): Promise<void> {
    const { reporter, isHalted, logger } = this.#options;
    const { signal } = this.#stop;
    const imageModels = new ImageModels();
    let misses = 0;
    let damped: Damped | undefined;
    try {
      if (!(await reporter.claim(id))) return;
      while (!signal.aborted && !isHalted()) {
        const node = reporter.node(id);
        if (node?.owner !== reporter.owner || node.agent === 1) return;
        const answer = await probe(this.#target(node), imageModels);
        misses = answer.up ? 0 : misses + 1;
        damped ??= resumed(toldOf(node));
        if (answer.up || misses >= missesUntilDown) {
          damped = observe(damped, answer.up, performance.now());
          await this.#tell(id, answer, damped);
        }
        await sleep(probeIntervalMs, signal);
      }
    } catch (error) {
      // The log is away, or others were faster: the next look begins anew.
      logger.debug(
        { node: id, reason: error instanceof Error ? error.message : 'unknown' },
        'node not reported',
      );
    }
  }

  async #tell(id: string, answer: Probed, damped: Damped): Promise<void> {
    const { reporter } = this.#options;
    if (answer.up && damped.told !== true) return;
    const health = answer.up ? answer : down(answer.reason);
    if (reporter.differs(id, health)) await reporter.tell(id, health);
  }

  #target(node: NodeRow): { url: string; dialect: Dialect; credential: string | undefined } {
    const name = node.credential;
    const credential = name === null ? undefined : this.#options.credential(name);
    return { url: node.url, dialect: node.dialect, credential };
  }
}
