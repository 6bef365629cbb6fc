/**
 * Registry of reporting processes, with one row per incarnation. A gateway is removed only if it stops cleanly, if a later
 * start from its data folder proves its end, or if an operator tells the control plane to forget it. Its tombstone prevents
 * older reports from adding it again.
 */
import type { Forgotten, StatusReport } from '../../schemas/records/status.ts';
import { BoundedMap } from '../../shared/runtime/bounded-map.ts';

export interface SeenReport {
  readonly report: StatusReport;
  /** Monotonic time in ms when this replica read the report. */
  readonly seenMs: number;
  /** Whether the report comes from a file, from another replica's memory record, or from before this replica's start. */
  readonly isRemembered: boolean;
  /** Whether an operator told the control plane to forget the gateway. The row is removed once the gateway is silent. */
  readonly isForgotten?: boolean;
  /** Index of the token that signed the report, or undefined if a file or another process passed the report on. */
  readonly signedBy?: number | undefined;
}

/** Id of a process's data folder, which stays the same across restarts, or the incarnation if there is no folder. */
export function recordsId({ folder, incarnation }: Pick<StatusReport, 'folder' | 'incarnation'>): string {
  return folder?.id ?? incarnation;
}

export interface FleetRow extends SeenReport {
  /** Monotonic time in ms when anyone last appended the report to the topic, or -Infinity if that is not known. */
  readonly publishedMs: number;
  readonly isForgotten: boolean;
}

export type Arrival =
  /** Report from the status topic, written since this replica started. */
  | 'live'
  /** Report from the status topic, written before this replica started. */
  | 'earlier'
  /** Report from a memory record of another replica. */
  | 'memory'
  /** Report from the file in which this replica stores gateways. */
  | 'file';

const rowsMax = 10_000;
const tombstonesMax = 20_000;
/** Silence in ms after which a control plane is removed. Gateways are kept, because they must confirm revocations. */
const controlPlaneKeptMs = 600_000;

export class FleetRows {
  /** Incarnations whose rows were added or removed and must be persisted. The code that persists them clears the set. */
  readonly changed = new Set<string>();
  readonly #rows = new Map<string, FleetRow>();
  readonly #tombstones = new BoundedMap<string, number>(tombstonesMax, 'oldest');
  #overflowed = false;

  /** Whether more processes have reported than the registry can hold, so that it is incomplete. */
  get isOverflowed(): boolean {
    return this.#overflowed;
  }

  all(): IterableIterator<FleetRow> {
    return this.#rows.values();
  }

  get(incarnation: string): FleetRow | undefined {
    return this.#rows.get(incarnation);
  }

  /** Returns the number of the last report of an incarnation that has ended, or undefined if it has not. */
  findEnd(incarnation: string): number | undefined {
    return this.#tombstones.get(incarnation);
  }

  /** Adds or updates a row. Returns false if the incarnation has ended with this report or a later one. */
  upsert(report: StatusReport, arrival: Arrival, signedBy?: number): boolean {
    const nowMs = performance.now();
    const { incarnation, n } = report;
    const ended = this.#tombstones.get(incarnation);
    if (ended !== undefined && n <= ended) return false;
    const before = this.#rows.get(incarnation);
    const publishedMs = arrival === 'file' || arrival === 'earlier' ? Number.NEGATIVE_INFINITY : nowMs;
    if (before && n <= before.report.n) {
      this.#rows.set(incarnation, { ...before, publishedMs: Math.max(publishedMs, before.publishedMs) });
      return true;
    }
    if (report.stopped) {
      this.#end(incarnation, n);
      return true;
    }
    if (before === undefined && !this.#admits(report, ended !== undefined)) return true;
    const isRemembered = arrival !== 'live';
    this.#rows.set(incarnation, {
      report,
      seenMs: nowMs,
      isRemembered,
      signedBy,
      publishedMs,
      isForgotten: false,
    });
    if (before === undefined || before.isForgotten) this.changed.add(incarnation);
    return true;
  }

  /** Marks a row as forgotten. `sweep` removes it once its gateway is silent, so that a live gateway never disappears. */
  forget({ incarnation, n }: Forgotten): void {
    const row = this.#rows.get(incarnation);
    if (row && row.report.n > n) return;
    if (row) this.#rows.set(incarnation, { ...row, isForgotten: true });
    this.#addTombstone(incarnation, n);
  }

  /** Removes forgotten rows that are silent, and control planes that have not reported for a long time. */
  sweep(silentMs: number): void {
    const nowMs = performance.now();
    for (const [incarnation, { report, seenMs, isForgotten, isRemembered }] of this.#rows) {
      const age = nowMs - seenMs;
      const isForgottenAndSilent = isForgotten && (isRemembered || age > silentMs);
      if (isForgottenAndSilent || (report.kind === 'control-plane' && age > controlPlaneKeptMs))
        this.#rows.delete(incarnation);
    }
  }

  /** Whether a row for the report can be added: its process may still be running, and the registry is not full. */
  #admits(report: StatusReport, reportedSinceItsEnd: boolean): boolean {
    const { folder, incarnation, n } = report;
    if (folder && !reportedSinceItsEnd)
      for (const { report: other } of [...this.#rows.values()]) {
        if (other.folder?.id !== folder.id || other.folder.start === folder.start) continue;
        if (other.folder.start > folder.start) {
          this.#addTombstone(incarnation, n);
          return false;
        }
        this.#end(other.incarnation, other.n);
      }
    if (this.#rows.size < rowsMax) return true;
    this.#overflowed = true;
    return false;
  }

  #end(incarnation: string, n: number): void {
    this.#rows.delete(incarnation);
    this.#addTombstone(incarnation, n);
  }

  #addTombstone(incarnation: string, n: number): void {
    const before = this.#tombstones.get(incarnation) ?? 0;
    this.#tombstones.keep(incarnation, Math.max(before, n));
    this.changed.add(incarnation);
  }
}
