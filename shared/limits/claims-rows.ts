/** What is claimed of each limit, folded from the entries of records in the order of the log. Pure: times are passed in. */
import { type GaugeEntry, type GaugeRecord, inFlightWindow } from '../../schemas/gauges.ts';

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
/** A minute further away is that of no gateway whose clock is right. */
const windowDistanceMs = 200_000;
/** Limits at most, so that no writer can fill the memory. */
const rowsMax = 200_000;
/** Limits and cells that one sweep looks at, and the cells of one limit more. */
const sweptAtOnce = 5_000;

/** Whether no minute of a record is long over or far ahead: what is would only take memory. */
export function isOfNow({ entries }: GaugeRecord, wallMs: number): boolean {
  return entries.every(
    ({ window }) => window === inFlightWindow || Math.abs(window - wallMs) <= windowDistanceMs,
  );
}

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
  readonly entries: readonly GaugeEntry[];
  /** Another process holds all room. */
  readonly isBlocked: boolean;
  /** When they were read, monotonic ms. */
  readonly atMs: number;
}

export class ClaimsRows {
  /** By window, then by subject: no key is composed for each entry of each record. */
  readonly #windows = new Map<number, Map<string, LimitRow>>();
  #size = 0;
  /** Where the next sweep continues. */
  #sweeping: MapIterator<LimitRow> | undefined;

  get size(): number {
    return this.#size;
  }

  row({ subject, window }: LimitName): LimitRow | undefined {
    return this.#windows.get(window)?.get(subject);
  }

  fold({ process, entries, isBlocked, atMs }: EntriesOfProcess): void {
    for (const { subject, window, limit, used, claim: asked } of entries) {
      const row = this.#rowOf(subject, window, limit);
      if (row === undefined) continue;
      row.limit = limit;
      const cell = cellOf(row, process);
      const held = cell.claim;
      const room = isBlocked ? 0 : limit - (row.claimed - held);
      set(row, cell, used, asked, Math.max(used, Math.min(asked, Math.max(held, room))));
      cell.atMs = atMs;
    }
  }

  /** A process ended: what it admitted in a minute was admitted, what it held in flight is over. */
  end(process: string): void {
    for (const row of this.#rows()) {
      const cell = row.cells.get(process);
      if (cell === undefined) continue;
      if (row.window === inFlightWindow) {
        set(row, cell, 0, 0, 0);
        row.cells.delete(process);
      } else set(row, cell, cell.used, cell.claim, cell.claim);
    }
  }

  /**
   * Forgets past minutes, and what nobody holds of weight in flight. Of that each call looks at a part, which bounds its turn of
   * the event loop. Returns how many limits and cells it looked at.
   */
  sweep(wallMs: number): number {
    for (const [window, rows] of this.#windows)
      if (window !== inFlightWindow && window + windowKeptMs < wallMs) {
        this.#windows.delete(window);
        this.#size -= rows.size;
      }
    let seen = 0;
    while (seen < sweptAtOnce) {
      this.#sweeping ??= this.#windows.get(inFlightWindow)?.values();
      const row = this.#sweeping?.next().value;
      if (row === undefined) {
        this.#sweeping = undefined;
        break;
      }
      seen += 1 + row.cells.size;
      this.#forgetIdle(row);
    }
    return seen;
  }

  #forgetIdle({ subject, window, claimed, short, cells }: LimitRow): void {
    if (claimed + short > 0) {
      for (const [process, { asked, claim }] of cells) if (asked + claim === 0) cells.delete(process);
    } else if (this.#windows.get(window)?.delete(subject)) this.#size--;
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

/** What holds nothing any more remains until a sweep comes to it: it is likely to be used again before. */
function cellOf(row: LimitRow, process: string): Cell {
  let cell = row.cells.get(process);
  if (cell === undefined) {
    cell = { used: 0, asked: 0, claim: 0, atMs: 0 };
    row.cells.set(process, cell);
  }
  return cell;
}

function set(row: LimitRow, cell: Cell, used: number, asked: number, claim: number): void {
  row.claimed += claim - cell.claim;
  row.short += Number(asked > claim) - Number(cell.asked > cell.claim);
  cell.used = used;
  cell.asked = asked;
  cell.claim = claim;
}
