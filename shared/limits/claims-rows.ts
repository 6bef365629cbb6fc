/** What is claimed of each limit, folded from the entries of records in the order of the log. Pure: times are passed in. */
import { type GaugeEntry, inFlightWindow, type PackedEntries } from '../../schemas/gauges.ts';

/** What one process holds of one limit. */
export interface Cell {
  used: number;
  /** What it asked for; more than `claim` where there was no room. */
  asked: number;
  claim: number;
  /** When it was read here, monotonic ms. */
  atMs: number;
}

/** One limit of one subject. */
export interface LimitRow {
  readonly subject: string;
  readonly window: number;
  /** As of the last record about it. */
  limit: number;
  readonly cells: Map<string, Cell>;
  /** Sum of the claims. */
  claimed: number;
  /** Processes that asked for more than they got. */
  short: number;
}

/** A minute's claims are kept for so long after it began, on this machine's clock. */
const windowKeptMs = 130_000;
/** Limits at most, so that no writer can fill the memory. */
const rowsMax = 200_000;

/** What names a limit: its subject, and the beginning of the minute or `inFlightWindow`. */
export type LimitName = Pick<GaugeEntry, 'subject' | 'window'>;

export interface Limit {
  readonly subject: string;
  /** Beginning of the minute, ms since 1970, or `inFlightWindow`. */
  readonly window: number;
  readonly limit: number;
}

export interface EntriesOfProcess {
  readonly process: string;
  readonly entries: PackedEntries;
  /** Another process holds all room. */
  readonly isBlocked: boolean;
  /** When they were read, monotonic ms. */
  readonly atMs: number;
}

export class ClaimsRows {
  /** By window, then by subject: no key is composed for each entry of each record. */
  readonly #windows = new Map<number, Map<string, LimitRow>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  row({ subject, window }: LimitName): LimitRow | undefined {
    return this.#windows.get(window)?.get(subject);
  }

  /** Returns the entries. */
  fold({ process, entries, isBlocked, atMs }: EntriesOfProcess): readonly GaugeEntry[] {
    const folded: GaugeEntry[] = [];
    entries.visit((entry) => {
      const { subject, window, limit, used, claim: asked } = entry;
      folded.push(entry);
      const row = this.#rowOf(subject, window, limit);
      if (row === undefined) return;
      row.limit = limit;
      const cell = row.cells.get(process);
      const held = cell?.claim ?? 0;
      const room = isBlocked ? 0 : limit - (row.claimed - held);
      const claim = Math.max(used, Math.min(asked, Math.max(held, room)));
      set(row, process, cell, { used, asked, claim, atMs });
    });
    return folded;
  }

  /** A process ended: what it admitted in a minute was admitted, what it held in flight is over. */
  end(process: string, atMs: number): void {
    for (const row of this.#rows()) {
      const cell = row.cells.get(process);
      if (cell === undefined) continue;
      if (row.window === inFlightWindow) set(row, process, cell, { used: 0, asked: 0, claim: 0, atMs });
      else set(row, process, cell, { ...cell, asked: cell.claim });
    }
  }

  /** Forgets past minutes, and what nobody holds. */
  sweep(wallMs: number): void {
    for (const row of this.#rows())
      if (isOver(row, wallMs) && this.#windows.get(row.window)?.delete(row.subject)) this.#size--;
    for (const [window, rows] of this.#windows) if (rows.size === 0) this.#windows.delete(window);
  }

  *#rows(): Generator<LimitRow> {
    for (const rows of this.#windows.values()) yield* rows.values();
  }

  #rowOf(subject: string, window: number, limit: number): LimitRow | undefined {
    let rows = this.#windows.get(window);
    const known = rows?.get(subject);
    if (known !== undefined) return known;
    if (this.#size >= rowsMax) return undefined;
    if (rows === undefined) {
      rows = new Map();
      this.#windows.set(window, rows);
    }
    const row = { subject, window, limit, cells: new Map(), claimed: 0, short: 0 };
    rows.set(subject, row);
    this.#size++;
    return row;
  }
}

function isOver({ window, claimed, short }: LimitRow, wallMs: number): boolean {
  return window === inFlightWindow ? claimed + short === 0 : window + windowKeptMs < wallMs;
}

/** `cell`: what the process has there now, which is changed in place. */
function set(row: LimitRow, process: string, cell: Cell | undefined, next: Cell): void {
  const wasShort = cell !== undefined && cell.asked > cell.claim;
  row.claimed += next.claim - (cell?.claim ?? 0);
  row.short += Number(next.asked > next.claim) - Number(wasShort);
  if (next.claim + next.asked === 0) row.cells.delete(process);
  else if (cell === undefined) row.cells.set(process, next);
  else {
    cell.used = next.used;
    cell.asked = next.asked;
    cell.claim = next.claim;
    cell.atMs = next.atMs;
  }
}
