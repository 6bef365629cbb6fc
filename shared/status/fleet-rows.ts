/**
 * One row a process that reports, by incarnation: two processes of one name are two rows. A gateway stays until it
 * stopped cleanly, a later start from its data folder proves that it ended, or an operator forgot it; no silence removes it.
 * What has ended is remembered by the number of its last report: only a newer report brings it back.
 */
import type { Forgotten, StatusReport } from '../../schemas/status.ts';

export interface Seen {
  readonly report: StatusReport;
  /** Monotonic time of this reader when the report was read, ms. */
  readonly seenMs: number;
  /** The report is an old one: from this replica's file, of another replica's memory, or from before the start. */
  readonly isRemembered: boolean;
}

export interface Row extends Seen {
  /** When the topic last got this report, a memory of it included; never for what only a file holds. */
  readonly publishedMs: number;
  readonly isForgotten: boolean;
}

export type Arrival =
  /** Read now, and written since this replica started. */
  | 'live'
  /** Read from the topic, written before this replica started. */
  | 'earlier'
  /** In another replica's memory. */
  | 'memory'
  /** From this replica's file. */
  | 'file';

const rowsMax = 10_000;
const endedMax = 20_000;
/** A control plane that is silent for longer is of no use to anyone. */
const controlPlaneKeptMs = 600_000;

export class FleetRows {
  /** Incarnations whose row was made or removed since the last look. */
  readonly changed = new Set<string>();
  readonly #rows = new Map<string, Row>();
  readonly #ended = new Map<string, number>();
  #overflowed = false;

  /** There are more processes than are held: which ones is then not known. */
  get isOverflowed(): boolean {
    return this.#overflowed;
  }

  all(): IterableIterator<Row> {
    return this.#rows.values();
  }

  get(incarnation: string): Row | undefined {
    return this.#rows.get(incarnation);
  }

  /** The last report of an incarnation that has ended. */
  endedAt(incarnation: string): number | undefined {
    return this.#ended.get(incarnation);
  }

  /** Takes a report up; gives false where it is of an incarnation that ended with it or after it. */
  take(report: StatusReport, arrival: Arrival): boolean {
    const nowMs = performance.now();
    const { incarnation, n } = report;
    const ended = this.#ended.get(incarnation);
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
    this.#rows.set(incarnation, { report, seenMs: nowMs, isRemembered, publishedMs, isForgotten: false });
    if (before === undefined || before.isForgotten) this.changed.add(incarnation);
    return true;
  }

  /** A row that reports goes only once it is silent, so that a live gateway is never out of sight. */
  forget({ incarnation, n }: Forgotten): void {
    const row = this.#rows.get(incarnation);
    if (row && row.report.n > n) return;
    if (row) this.#rows.set(incarnation, { ...row, isForgotten: true });
    this.#note(incarnation, n);
  }

  /** Removes what was forgotten and is silent, and control planes that are gone. */
  sweep(silentMs: number): void {
    const nowMs = performance.now();
    for (const [incarnation, { report, seenMs, isForgotten, isRemembered }] of this.#rows) {
      const age = nowMs - seenMs;
      const isGone = isForgotten && (isRemembered || age > silentMs);
      if (isGone || (report.kind === 'control-plane' && age > controlPlaneKeptMs))
        this.#rows.delete(incarnation);
    }
  }

  /** Is there room for a new row, and is it of a process that may still be alive? */
  #admits(report: StatusReport, reportedSinceItsEnd: boolean): boolean {
    const { folder, incarnation, n } = report;
    if (folder && !reportedSinceItsEnd)
      for (const { report: other } of [...this.#rows.values()]) {
        if (other.folder?.id !== folder.id || other.folder.start === folder.start) continue;
        if (other.folder.start > folder.start) {
          this.#note(incarnation, n);
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
    this.#note(incarnation, n);
  }

  #note(incarnation: string, n: number): void {
    const before = this.#ended.get(incarnation) ?? 0;
    this.#ended.delete(incarnation);
    this.#ended.set(incarnation, Math.max(before, n));
    this.changed.add(incarnation);
    if (this.#ended.size > endedMax) this.#ended.delete(this.#ended.keys().next().value as string);
  }
}
