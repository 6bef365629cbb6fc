/**
 * Nodes that are up and whose agent is away. That an agent is silent proves nothing about its node, which gateways reach by
 * another way: so before such a node is reported down, this replica, its owner, probes its URL. One that answers stays up and is
 * probed like a node without an agent until its agent is back; one that does not is down after the first probe. Where
 * no answer at all comes from most of this replica's nodes at once, it is the replica that is cut off: they stay as they are.
 */
import { setMaxListeners } from 'node:events';
import { AskedModels } from '../../shared/engines/asked-models.ts';
import { type Probed, probe, provesNothing } from '../../shared/engines/probe.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { RateLimitedLine } from '../../shared/runtime/rate-limited-line.ts';
import { sleep } from '../../shared/runtime/retry.ts';
import { parseColumn } from '../../shared/runtime/table-columns.ts';
import type { NodeIntervals } from './intervals.ts';
import type { NodeRow } from './node-health.ts';
import { missesUntilDown, probeTarget } from './node-prober.ts';
import type { NodeReporter } from './node-reporter.ts';

export interface AbsentAgentsOptions {
  readonly reporter: NodeReporter;
  /** Does this replica reach the log? Where it does not, others own its nodes soon. */
  readonly canReport: () => boolean;
  readonly credential: (name: string) => string | undefined;
  readonly intervals: NodeIntervals;
  readonly logger: Logger;
  isAttached(id: string): boolean;
  /** Has an agent of the node a token that is valid? */
  canAttach(id: string): boolean;
  /** Nodes whose agent has sent a heartbeat lately, and those of this replica that are up and whose agent has not. */
  reportingAndSilent(): readonly [reporting: number, silent: number];
  /** Rejects where the log cannot be written. */
  reportDown(id: string, reason: string): Promise<void>;
}

interface Absence {
  readonly id: string;
  /** What is known of the agent. */
  readonly reason: string;
  readonly asked: AskedModels;
  /** What the latest probe said; silent until one was answered, be it by a refusal. */
  answer: 'silent' | 'up' | 'bad';
  misses: number;
  /** So many in a row are down: the first, until the node has answered once. */
  missesMax: number;
}

/** Fewer nodes that fall silent together are no sign of a cut. */
const cutOffNodesMin = 3;

export class AbsentAgents {
  readonly #options: AbsentAgentsOptions;
  readonly #stop = new AbortController();
  readonly #absent = new Map<string, Absence>();
  readonly #held: RateLimitedLine;
  readonly #running = new Set<Promise<void>>();

  constructor(options: AbsentAgentsOptions) {
    this.#options = options;
    // Every absence waits on it; ten are no sign of a leak.
    setMaxListeners(0, this.#stop.signal);
    this.#held = new RateLimitedLine(({ probe: probes }) =>
      options.logger.warn({ probes }, 'most nodes fell silent at once; they are kept as they are'),
    );
  }

  /** Reports the node down unless it answers, or its agent comes back before. `reason`: what is known of the agent. */
  verify(id: string, reason: string): void {
    if (this.#absent.has(id) || this.#stop.signal.aborted) return;
    const asked = new AskedModels();
    const absence: Absence = { id, reason, asked, answer: 'silent', misses: 0, missesMax: 1 };
    this.#absent.set(id, absence);
    const running = this.#probeWhileAway(absence).finally(() => {
      this.#absent.delete(id);
      this.#running.delete(running);
    });
    this.#running.add(running);
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await Promise.allSettled(this.#running);
    this.#held.close();
  }

  /** Where the log cannot be written it ends, and the next scan for orphans begins again. */
  async #probeWhileAway(absence: Absence): Promise<void> {
    const { credential, intervals, reportDown } = this.#options;
    for (let row = this.#awayRow(absence.id); row !== undefined; row = this.#awayRow(absence.id)) {
      const answer = await probe(probeTarget(row, credential), absence.asked);
      if (this.#awayRow(absence.id) === undefined) return;
      const reason = this.#reasonOfDown(absence, row, answer);
      if (reason !== undefined) return reportDown(absence.id, reason).catch(() => undefined);
      await sleep(intervals.probeMs, this.#stop.signal);
    }
  }

  /** Why the node is down after this probe; undefined where it stays up. */
  #reasonOfDown(absence: Absence, row: NodeRow, answer: Probed): string | undefined {
    if (!this.#options.canAttach(absence.id)) return 'its token was revoked';
    if (provesNothing(answer)) return undefined;
    absence.answer = answer.up ? 'up' : answer.silent ? 'silent' : 'bad';
    const fault = answer.up ? modelsFault(row, answer.models) : answer.reason;
    if (fault === undefined) {
      absence.misses = 0;
      absence.missesMax = missesUntilDown;
      return undefined;
    }
    absence.misses++;
    if (absence.misses < absence.missesMax) return undefined;
    if (absence.answer !== 'silent' || !this.#isCutOff()) return `${absence.reason}; ${fault}`;
    this.#held.add('probe');
    return undefined;
  }

  /** The node, while it is for this replica to find out about it. */
  #awayRow(id: string): NodeRow | undefined {
    const { reporter, canReport, isAttached } = this.#options;
    if (this.#stop.signal.aborted || isAttached(id) || !canReport()) return undefined;
    const row = reporter.node(id);
    return row?.owner === reporter.owner && row.agent === 1 && row.up === 1 ? row : undefined;
  }

  /** Does nothing come, by agent or probe, from more nodes than something comes from? Also from those that are not probed yet. */
  #isCutOff(): boolean {
    const [reporting, away] = this.#options.reportingAndSilent();
    const answered = [...this.#absent.values()].filter(({ answer }) => answer !== 'silent').length;
    const silent = away - answered;
    return silent >= cutOffNodesMin && silent > reporting + answered;
  }
}

/** A node that has none of its models any more serves nothing of what the log says. */
function modelsFault(row: NodeRow, served: readonly string[]): string | undefined {
  const loaded = parseColumn(row.loaded);
  return loaded.length === 0 || loaded.some((name) => served.includes(name))
    ? undefined
    : 'its models are gone';
}
