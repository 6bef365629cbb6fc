/** Probes nodes without an agent every 2 s. If a node's owner is silent for 5 s, another replica claims the node. */
import { setMaxListeners } from 'node:events';
import { AskedModels, type ProbeTarget } from '../../shared/engines/asked-models.ts';
import { type ProbeResult, probe, provesNothing } from '../../shared/engines/probe.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { RateLimitedLine } from '../../shared/runtime/rate-limited-line.ts';
import { sleep } from '../../shared/runtime/retry.ts';
import { type DampingState, observe, resumeDamping } from './damping.ts';
import type { NodeIntervals } from './intervals.ts';
import { toLiveNode } from './live-report.ts';
import { down, lastReportedUp, type NodeRow } from './node-health.ts';
import { NodeLimits } from './node-limits.ts';
import type { NodeReporter } from './node-reporter.ts';
import type { ReplicaLiveness } from './replica-liveness.ts';

/** Number of consecutive unanswered probes after which a node is down. */
export const missesUntilDown = 3;

export interface ProberOptions {
  readonly reporter: NodeReporter;
  readonly liveness: ReplicaLiveness;
  /** Whether this replica has stopped folding. Then it cannot report, and other replicas claim its nodes. */
  readonly isHalted: () => boolean;
  /** Returns the credential with this name, or undefined if this replica does not have it. */
  readonly credential: (name: string) => string | undefined;
  /** Warns about reports on nodes that were kept out of the log, with their number per node. */
  readonly withheld: RateLimitedLine;
  readonly logger: Logger;
  readonly intervals: NodeIntervals;
}

export class NodeProber {
  readonly #options: ProberOptions;
  readonly #stop = new AbortController();
  readonly #probed = new Map<string, Promise<void>>();
  readonly #limits = new Map<string, NodeLimits>();
  readonly #live = new Map<string, ReturnType<typeof toLiveNode>>();
  #scanning: Promise<void> | undefined;

  constructor(options: ProberOptions) {
    this.#options = options;
    // Allow any number of listeners, because every probed node listens to this signal.
    setMaxListeners(0, this.#stop.signal);
  }

  start(): void {
    this.#scanning = this.#scan();
  }

  /** Returns the facts about a node that are not in the log, if this replica probes the node. */
  live(id: string): ReturnType<typeof toLiveNode> | undefined {
    return this.#live.get(id);
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
      const nodes = reporter.nodes('probed');
      const known = new Set(nodes.map(({ id }) => id));
      for (const id of this.#limits.keys()) if (!known.has(id)) this.#limits.delete(id);
      for (const node of nodes) {
        const { id } = node;
        if (this.#probed.has(id) || !(node.owner === reporter.owner || isDead(node.owner))) continue;
        const probing = this.#probeOwned(id).finally(() => {
          this.#probed.delete(id);
          this.#live.delete(id);
        });
        this.#probed.set(id, probing);
      }
      await sleep(intervals.scanMs, signal);
    }
  }

  /** Probes one node until it is removed, gets an agent or belongs to another replica. */
  async #probeOwned(id: string): Promise<void> {
    const { reporter, isHalted, logger, intervals } = this.#options;
    const { probeMs, dampSecondsMin } = intervals;
    const { signal } = this.#stop;
    const asked = new AskedModels();
    let misses = 0;
    let damped: DampingState | undefined;
    try {
      if (!(await reporter.claim(id))) return;
      while (!signal.aborted && !isHalted()) {
        const node = reporter.node(id);
        if (node?.owner !== reporter.owner || node.agent === 1) return;
        const answer = await probe(probeTarget(node, this.#options.credential), asked);
        misses = missesAfter(misses, answer);
        damped ??= resumeDamping(lastReportedUp(node), dampSecondsMin);
        if (answer.up || misses >= missesUntilDown) {
          damped = observe(damped, answer.up, performance.now(), dampSecondsMin);
          await this.#report(node, answer, damped);
        }
        await sleep(probeMs, signal);
      }
    } catch (error) {
      // The log is unreachable or another replica was faster, so leave the node to the next scan.
      logger.debug(
        { node: id, reason: error instanceof Error ? error.message : 'unknown' },
        'node not reported',
      );
    }
  }

  async #report(node: NodeRow, answer: ProbeResult, damped: DampingState): Promise<void> {
    const { reporter, withheld } = this.#options;
    const { id } = node;
    const { health, unlisted } = reporter.partForLog(node, answer.up ? answer : down(answer.reason));
    const limits = this.#limits.get(id) ?? new NodeLimits();
    this.#limits.set(id, limits);
    this.#live.set(id, toLiveNode(unlisted, limits));
    if ((answer.up && damped.reportedUp !== true) || !reporter.differs(id, health)) return;
    if (limits.admits(health, node)) await reporter.reportHealth(id, health);
    else withheld.add(id);
  }
}

function missesAfter(misses: number, answer: ProbeResult): number {
  if (answer.up) return 0;
  return provesNothing(answer) ? misses : misses + 1;
}

/** Returns how to reach a node's engine. `credential` finds a credential by name, if this replica has it. */
export function probeTarget(
  { url, dialect, credential: name }: NodeRow,
  credential: (name: string) => string | undefined,
): ProbeTarget {
  return { url, dialect, credential: name === null ? undefined : credential(name) };
}
