/**
 * What the fleet last said of itself, judged by the reader: state and confirmation follow from what a process proved and
 * from how long it has been silent here, never from its own word that it is well.
 */
import { type StatusReport, statusSchema } from '../../schemas/status.ts';
import { type ControlLog, LogUnavailable } from '../log/control-log.ts';
import { delay } from '../snapshot/replicator.ts';

/** A silent process is STALE after this. */
const staleSeconds = 10;
/** A fenced gateway whose last proof is older than this accepts no key (design: Revocation confirmed). */
const fencedForSureSeconds = 60;
const processesMax = 10_000;
const digestsKept = 2000;

export type FleetState = 'SYNCED' | 'LAGGING' | 'STALE' | 'DIVERGED';

export interface Seen {
  readonly report: StatusReport;
  /** Monotonic time of this reader when the report arrived, ms. */
  readonly seenMs: number;
}

export interface HeadView {
  readonly seq: number;
  readonly foldVersion: number;
}

export class StatusBoard {
  readonly #log: ControlLog;
  readonly #stop = new AbortController();
  readonly #seen = new Map<string, Seen>();
  readonly #digests = new Map<number, string>();
  readonly #listeners = new Set<() => void>();
  #running: Promise<void> | undefined;
  /** Where the reports end that were there at the start. */
  #earlierEnd: number | undefined;
  #isComplete = false;

  constructor(log: ControlLog) {
    this.#log = log;
  }

  start(): void {
    this.#running = this.#run();
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    this.#notify();
    await this.#running;
  }

  /** Our own digest at a position, to compare others' with. */
  remember(seq: number, digest: string): void {
    this.#digests.set(seq, digest);
    if (this.#digests.size > digestsKept) this.#digests.delete(this.#digests.keys().next().value as number);
  }

  /** The last report of each gateway that has not said good-bye, by name. */
  gateways(): Seen[] {
    const all = [...this.#seen.values()].filter(({ report }) => report.kind === 'gateway' && !report.stopped);
    return all.sort((a, b) => (a.report.name < b.report.name ? -1 : 1));
  }

  /** The gateways and the version of the fold that each reported; undefined until all earlier reports were read. */
  readers(): { readonly name: string; readonly foldVersion: number }[] | undefined {
    if (!this.#isComplete) return undefined;
    return this.gateways().map(({ report: { name, foldVersion } }) => ({ name, foldVersion }));
  }

  controlPlanes(): Seen[] {
    return [...this.#seen.values()].filter(
      ({ report }) => report.kind === 'control-plane' && !report.stopped,
    );
  }

  state({ report, seenMs }: Seen, head: HeadView): FleetState {
    if ((performance.now() - seenMs) / 1000 > staleSeconds) return 'STALE';
    if (report.diverged) return 'DIVERGED';
    const digest = this.#digests.get(report.applied);
    if (digest && report.foldVersion === head.foldVersion && digest !== report.digest) return 'DIVERGED';
    return report.applied >= head.seq && !report.halted ? 'SYNCED' : 'LAGGING';
  }

  /** Is everything up to `position` in force on this gateway? */
  confirms({ report, seenMs }: Seen, position: number): boolean {
    if (report.applied >= position) return true;
    if (report.stalePolicy !== 'fence' || report.freshSeconds === null)
      return report.freshSeconds === null && report.stalePolicy === 'fence';
    return report.freshSeconds + (performance.now() - seenMs) / 1000 > fencedForSureSeconds;
  }

  /** Calls back at every report, until the returned function is called. */
  onReport(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  async #run(): Promise<void> {
    let from = 0;
    let waitMs = 50;
    while (!this.#stop.signal.aborted) {
      try {
        this.#earlierEnd ??= await this.#log.end();
        this.#reached(from);
        for await (const batch of this.#log.tail({ from, signal: this.#stop.signal })) {
          for (const record of batch.records) this.#take(record.value);
          from = batch.nextOffset;
          this.#reached(from);
          waitMs = 50;
          if (batch.records.length > 0) this.#notify();
        }
      } catch (error) {
        // Status is retold every two seconds: after any fault the present is all that matters.
        if (!(error instanceof LogUnavailable)) from = await this.#log.end().catch(() => 0);
      }
      await delay(waitMs, this.#stop.signal);
      waitMs = Math.min(waitMs * 2, 2000);
    }
  }

  #reached(offset: number): void {
    this.#isComplete ||= offset >= (this.#earlierEnd ?? Number.POSITIVE_INFINITY);
  }

  #take(value: Buffer): void {
    try {
      const parsed = statusSchema.safeParse(JSON.parse(value.toString('utf8')));
      if (!parsed.success) return;
      if (!this.#seen.has(parsed.data.name) && this.#seen.size >= processesMax) return;
      this.#seen.set(parsed.data.name, { report: parsed.data, seenMs: performance.now() });
    } catch {
      // Not JSON: not a report.
    }
  }

  #notify(): void {
    for (const listener of this.#listeners) listener();
  }
}
