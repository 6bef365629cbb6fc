/**
 * Nodes that agents keep, and that nobody reports on: those of a replica that fell silent are claimed, and a node to which
 * no agent comes within five seconds is down. Looks twice a second, and soon after the state moved.
 */
import type { Logger } from '../../shared/runtime/logger.ts';
import { sleep } from '../../shared/runtime/retry.ts';
import type { NodeReporter, NodeRow } from './node-reporter.ts';
import type { Owners } from './replica-liveness.ts';

export interface VacanciesOptions {
  readonly reporter: NodeReporter;
  readonly owners: Owners;
  readonly canReport: () => boolean;
  readonly logger: Logger;
  isAttached(id: string): boolean;
  /** Tells that a node is down; rejects where it could not be told. */
  fell(id: string, reason: string): Promise<void>;
  /** With the ids of all nodes that agents keep. */
  onLook(known: ReadonlySet<string>): void;
  /** This replica cannot reach the log. */
  onCutOff(): void;
}

const lookIntervalMs = 500;
const vacantMsMax = 5000;
/** A look that comes so late means that this process did not run. */
const sleptMs = 1500;

export class Vacancies {
  readonly #options: VacanciesOptions;
  readonly #stop = new AbortController();
  /** Since when nobody has reported on a node of ours, monotonic ms. */
  readonly #vacantSinceMs = new Map<string, number>();
  #lookedMs = performance.now();
  #awakeSinceMs = Number.NEGATIVE_INFINITY;
  #soon: NodeJS.Immediate | undefined;
  #looking: Promise<void> | undefined;

  constructor(options: VacanciesOptions) {
    this.#options = options;
  }

  start(): void {
    this.#lookedMs = performance.now();
    this.#looking = this.#run();
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    clearImmediate(this.#soon);
    await this.#looking;
  }

  /** False for a while after this process did not run: what it missed then proves nothing. */
  get awake(): boolean {
    const nowMs = performance.now();
    return nowMs - this.#lookedMs < sleptMs && nowMs - this.#awakeSinceMs > vacantMsMax;
  }

  /** A node's agent has gone; from now on its time runs. */
  left(id: string): void {
    this.#vacantSinceMs.set(id, performance.now());
  }

  /** Many commits in one turn are one look. */
  lookSoon(): void {
    this.#soon ??= setImmediate(() => {
      this.#soon = undefined;
      if (!this.#stop.signal.aborted) this.#look();
    });
  }

  async #run(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      const nowMs = performance.now();
      if (nowMs - this.#lookedMs > sleptMs) {
        this.#awakeSinceMs = nowMs;
        this.#vacantSinceMs.clear();
      }
      this.#lookedMs = nowMs;
      this.#look();
      await sleep(lookIntervalMs, this.#stop.signal);
    }
  }

  #look(): void {
    const { reporter, owners, canReport, onLook, onCutOff } = this.#options;
    if (!canReport()) {
      this.#vacantSinceMs.clear();
      onCutOff();
      return;
    }
    const nodes = reporter.nodes('agent');
    const known = new Set(nodes.map(({ id }) => id));
    const gone = owners.gone();
    for (const node of nodes) this.#consider(node, gone);
    for (const id of this.#vacantSinceMs.keys()) if (!known.has(id)) this.#vacantSinceMs.delete(id);
    onLook(known);
  }

  #consider(node: NodeRow, gone: (owner: string | null) => boolean): void {
    const { reporter, isAttached, fell, logger } = this.#options;
    const { id } = node;
    if (isAttached(id) || node.up !== 1) {
      this.#vacantSinceMs.delete(id);
    } else if (node.owner === reporter.owner) {
      const sinceMs = this.#vacantSinceMs.get(id) ?? performance.now();
      this.#vacantSinceMs.set(id, sinceMs);
      if (performance.now() - sinceMs > vacantMsMax) fell(id, 'no agent attached').catch(() => undefined);
    } else if (gone(node.owner)) {
      reporter.claim(id).catch((error: unknown) => logger.debug({ node: id, err: error }, 'not claimed'));
    }
  }
}
