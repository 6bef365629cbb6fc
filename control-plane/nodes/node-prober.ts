/**
 * Probes the nodes that have no agent: each is owned by one replica, which probes it every two seconds. After three misses
 * it is down. A node whose owner has been silent for five seconds is claimed by the first replica that notices.
 */
import { setMaxListeners } from 'node:events';
import type { Dialect } from '../../schemas/names.ts';
import { ImageModels } from '../../shared/engines/image-models.ts';
import { type Probed, probe } from '../../shared/engines/probe.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { sleep } from '../../shared/runtime/retry.ts';
import { type Damped, observe, resumeDamping } from './damping.ts';
import type { NodeIntervals } from './intervals.ts';
import { down } from './node-limits.ts';
import { lastReportedUp, type NodeReporter, type NodeRow } from './node-reporter.ts';
import type { ReplicaLiveness } from './replica-liveness.ts';

const missesUntilDown = 3;

export interface ProberOptions {
  readonly reporter: NodeReporter;
  readonly liveness: ReplicaLiveness;
  /** Did the fold of this replica stop? Then it cannot report, and others claim its nodes. */
  readonly isHalted: () => boolean;
  /** The node's own credential by its name; undefined where this replica does not have it. */
  readonly credential: (name: string) => string | undefined;
  readonly logger: Logger;
  readonly intervals: NodeIntervals;
}

export class NodeProber {
  readonly #options: ProberOptions;
  readonly #stop = new AbortController();
  readonly #probed = new Map<string, Promise<void>>();
  #scanning: Promise<void> | undefined;

  constructor(options: ProberOptions) {
    this.#options = options;
    // Every node waits on it; ten are no sign of a leak.
    setMaxListeners(0, this.#stop.signal);
  }

  start(): void {
    this.#scanning = this.#scan();
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#scanning;
    await Promise.allSettled(this.#probed.values());
  }

  async #scan(): Promise<void> {
    const { signal } = this.#stop;
    const { reporter, liveness, isHalted, intervals } = this.#options;
    while (!signal.aborted && !isHalted()) {
      const isDead = liveness.check();
      for (const node of reporter.nodes('probed')) {
        const { id } = node;
        if (this.#probed.has(id) || !(node.owner === reporter.owner || isDead(node.owner))) continue;
        const probing = this.#probeOwned(id).finally(() => this.#probed.delete(id));
        this.#probed.set(id, probing);
      }
      await sleep(intervals.scanMs, signal);
    }
  }

  /** Probes one node until it is removed or another replica owns it. */
  async #probeOwned(id: string): Promise<void> {
    const { reporter, isHalted, logger, intervals } = this.#options;
    const { probeMs, dampSecondsMin } = intervals;
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
        damped ??= resumeDamping(lastReportedUp(node), dampSecondsMin);
        if (answer.up || misses >= missesUntilDown) {
          damped = observe(damped, answer.up, performance.now(), dampSecondsMin);
          await this.#report(id, answer, damped);
        }
        await sleep(probeMs, signal);
      }
    } catch (error) {
      // The log is unreachable, or another replica was faster: the next scan retries.
      logger.debug(
        { node: id, reason: error instanceof Error ? error.message : 'unknown' },
        'node not reported',
      );
    }
  }

  async #report(id: string, answer: Probed, damped: Damped): Promise<void> {
    const { reporter } = this.#options;
    if (answer.up && damped.reportedUp !== true) return;
    const health = answer.up ? answer : down(answer.reason);
    if (reporter.differs(id, health)) await reporter.reportHealth(id, health);
  }

  #target(node: NodeRow): { url: string; dialect: Dialect; credential: string | undefined } {
    const name = node.credential;
    const credential = name === null ? undefined : this.#options.credential(name);
    return { url: node.url, dialect: node.dialect, credential };
  }
}
