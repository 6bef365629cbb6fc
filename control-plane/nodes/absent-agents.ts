/**
 * Checks nodes whose agent is silent. Silence proves nothing about the node, so its owner probes the node before reporting it
 * down. A node that answers stays up and is probed until its agent returns; a node that does not answer the first probe is
 * reported down. If most of this replica's nodes fall silent at once, the replica itself is probably cut off, so their state
 * is left unchanged.
 */
import { setMaxListeners } from 'node:events';
import { AskedModels } from '../../shared/engines/asked-models.ts';
import { type ProbeResult, probe, provesNothing } from '../../shared/engines/probe.ts';
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
  /** Whether this replica can reach the log. If it cannot, other replicas will soon own its nodes. */
  readonly canReport: () => boolean;
  readonly credential: (name: string) => string | undefined;
  readonly intervals: NodeIntervals;
  readonly logger: Logger;
  isAttached(id: string): boolean;
  /** Whether the node has a valid token with which an agent could attach. */
  canAttach(id: string): boolean;
  /** Returns the number of nodes whose agent reports, and of this replica's healthy nodes whose agent is silent. */
  reportingAndSilent(): readonly [reporting: number, silent: number];
  /** Reports the node down. Rejects if the log cannot be written. */
  reportDown(id: string, reason: string): Promise<void>;
}

interface Absence {
  readonly id: string;
  /** Reason why the agent is considered absent. */
  readonly reason: string;
  readonly asked: AskedModels;
  /** Result of the latest probe. It is `silent` until the node first answers; an error is an answer too. */
  answer: 'silent' | 'up' | 'bad';
  misses: number;
  /** Number of consecutive failed probes after which the node is down. It is 1 until the node has answered once. */
  missesMax: number;
}

/** Minimum number of silent nodes from which this replica may be considered cut off. */
const cutOffNodesMin = 3;

export class AbsentAgents {
  readonly #options: AbsentAgentsOptions;
  readonly #stop = new AbortController();
  readonly #absent = new Map<string, Absence>();
  readonly #held: RateLimitedLine;
  readonly #running = new Set<Promise<void>>();

  constructor(options: AbsentAgentsOptions) {
    this.#options = options;
    // Allow any number of listeners, because the probe loop of every absent agent listens to this signal.
    setMaxListeners(0, this.#stop.signal);
    this.#held = new RateLimitedLine(({ probe: probes }) =>
      options.logger.warn({ probes }, 'most nodes fell silent at once; their state is left unchanged'),
    );
  }

  /** Probes the node, and reports it down unless it answers or its agent returns. `reason` says why the agent is absent. */
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

  /** Probes the node while its agent is absent. Stops if the log cannot be written, because the next scan starts again. */
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

  /** Returns the reason why the node is down after this probe, or undefined if it stays up. */
  #reasonOfDown(absence: Absence, row: NodeRow, answer: ProbeResult): string | undefined {
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

  /** Returns the node's row, or undefined if this replica is not responsible for probing the node. */
  #awayRow(id: string): NodeRow | undefined {
    const { reporter, canReport, isAttached } = this.#options;
    if (this.#stop.signal.aborted || isAttached(id) || !canReport()) return undefined;
    const row = reporter.node(id);
    return row?.owner === reporter.owner && row.agent === 1 && row.up === 1 ? row : undefined;
  }

  /** Whether more nodes are silent than report or answer a probe. Nodes that were not probed yet count as silent. */
  #isCutOff(): boolean {
    const [reporting, away] = this.#options.reportingAndSilent();
    const answered = [...this.#absent.values()].filter(({ answer }) => answer !== 'silent').length;
    const silent = away - answered;
    return silent >= cutOffNodesMin && silent > reporting + answered;
  }
}

/** Returns a fault if the node no longer serves any of the models that the log lists for it. */
function modelsFault(row: NodeRow, served: readonly string[]): string | undefined {
  const loaded = parseColumn(row.loaded);
  return loaded.length === 0 || loaded.some((name) => served.includes(name))
    ? undefined
    : 'its models are gone';
}
