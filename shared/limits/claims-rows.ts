/** Claims of processes on each limit, folded from record entries in log order. Pure: callers pass times as arguments. */
import { type GaugeEntry, inFlightWindow } from '../../schemas/records/gauges.ts';

/** One process's claim on a limit, and the process's use of that limit. */
export interface Cell {
  used: number;
  /** Amount that the process wants to hold. It exceeds `claim`, the granted amount, if there was not enough room. */
  asked: number;
  claim: number;
  /** Whether the process has given up its standing share. */
  yields: boolean;
  /** Monotonic time in ms at which the process that runs this code read the entry. */
  atMs: number;
}

/** Processes with a standing share of a limit, which they may use without claiming it. All readers compute equal shares. */
export interface Members {
  /** Number that changes whenever a method of this object may return a different result. */
  readonly epoch: number;
  /** Number of processes for which all others reserve a standing share of the window. */
  count(window: number): number;
  /** Number of processes among which standing shares are divided, including those that others may not know yet. */
  sharers(window: number, members: number): number;
  has(process: string, window: number): boolean;
}

/** Claims and use of all processes for one limit of one subject. */
export interface LimitRow {
  readonly subject: string;
  readonly window: number;
  /** Limit as stated in the last record that mentions it. */
  limit: number;
  readonly cells: Map<string, Cell>;
  claimed: number;
  /** Sum of all processes' use, according to their last records. */
  used: number;
  /** Number of processes that want more than they were granted. */
  short: number;
  /** Value of `Members.epoch` at which `members`, `above` and `below` were computed. */
  epoch: number;
  members: number;
  /** Sum of the claims that are at least as large as the claiming process's standing share. */
  above: number;
  /** Number of processes whose standing share is reserved, whether or not they have a cell. */
  below: number;
}

/** Time in ms after the start of a minute, by this machine's clock, for which claims on that minute are kept. */
const windowKeptMs = 130_000;
/** Largest distance in ms between a claimed minute and its record's log time. Other entries would only waste memory. */
const windowDistanceMs = 200_000;
/** Maximum number of limits kept, so that no writer can exhaust the memory. */
const rowsMax = 200_000;
/** Number of limits and cells after which a sweep pauses, once it has finished the cells of the current limit. */
const sweptAtOnce = 5_000;

/** Identifies a limit by its subject and its window: the start of a minute, or `inFlightWindow`. */
export type LimitName = Pick<GaugeEntry, 'subject' | 'window'>;

export interface Limit {
  readonly subject: string;
  /** Start of the minute to which the limit applies in ms since 1970, or `inFlightWindow` for a limit on concurrency. */
  readonly window: number;
  readonly limit: number;
}

export interface ProcessEntries {
  readonly process: string;
  readonly entries: readonly GaugeEntry[];
  /** Whether a different process holds all the room, so that this one gets no more. */
  readonly isBlocked: boolean;
  /** Monotonic time in ms at which the entries were read. */
  readonly atMs: number;
  /** Log time of the record in ms since 1970, equal for all readers. */
  readonly loggedMs: number | undefined;
}

/** Divisor that reserves half of a limit for all standing shares together. Any process may claim the other half. */
const shareDivisor = 2;

export class ClaimsRows {
  readonly #members: Members;
  /** Rows by window and then by subject. With two maps, no combined key has to be built for each entry. */
  readonly #windows = new Map<number, Map<string, LimitRow>>();
  #size = 0;
  /** Limit at which the next sweep continues. Undefined if it begins anew. */
  #sweeping: MapIterator<LimitRow> | undefined;

  constructor(members: Members) {
    this.#members = members;
  }

  get size(): number {
    return this.#size;
  }

  row({ subject, window }: LimitName): LimitRow | undefined {
    const row = this.#windows.get(window)?.get(subject);
    if (row !== undefined && row.epoch !== this.#members.epoch) this.#reserve(row);
    return row;
  }

  /** Standing share of each process in a limit that has no cells. 0 if the share is less than one request. */
  reservedShare(window: number, limit: number): number {
    return standingShare(limit, this.#members.count(window));
  }

  /** Standing share that a process may use, or 0 if it is below one request. A lower limit in `row` replaces `limit`. */
  standingShare(window: number, limit: number, row: LimitRow | undefined): number {
    const members = row === undefined ? this.#members.count(window) : row.members;
    return standingShare(Math.min(limit, row?.limit ?? limit), this.#members.sharers(window, members));
  }

  /** Room in the limit that other processes neither claim nor reserve as standing shares. May be negative. */
  left(row: LimitRow, process: string): number {
    const cell = row.cells.get(process);
    const reserves = this.#reservesShare(row, process, cell);
    return roomLeft(row, row.above - (reserves ? 0 : (cell?.claim ?? 0)), row.below - Number(reserves));
  }

  /** Whether another process was granted less than it requested. */
  lacksElsewhere(row: LimitRow, process: string): boolean {
    const cell = row.cells.get(process);
    return row.short > Number(cell !== undefined && this.#isShort(row, process, cell));
  }

  /** Whether all claims and standing shares together fit within the limit. */
  fits(row: LimitRow): boolean {
    return roomLeft(row, row.above, row.below) >= 0;
  }

  fold({ process, entries, isBlocked, atMs, loggedMs }: ProcessEntries): void {
    for (const { subject, window, limit, used, claim: asked, yields = false } of entries) {
      if (isFarFromRecord(window, loggedMs)) continue;
      const row = this.#rowOf(subject, window, limit);
      if (row === undefined) continue;
      if (row.limit !== limit || row.epoch !== this.#members.epoch) {
        row.limit = limit;
        this.#reserve(row);
      }
      const cell = getCell(row, process);
      const room = isBlocked ? 0 : this.left(row, process);
      const claim = Math.max(used, Math.min(asked, Math.max(cell.claim, room)));
      this.#set(row, process, cell, { used, asked, claim, yields, atMs });
    }
  }

  /** Ends a process. Its admitted requests still count in their minute, but its requests in flight are over. */
  end(process: string): void {
    for (const row of this.#rows()) {
      const cell = row.cells.get(process);
      if (cell === undefined) continue;
      // An epoch of -1 forces the row's sums to be recomputed.
      row.epoch = -1;
      if (row.window !== inFlightWindow) {
        cell.asked = cell.claim;
        continue;
      }
      row.claimed -= cell.claim;
      row.used -= cell.used;
      row.cells.delete(process);
    }
  }

  #set(row: LimitRow, process: string, cell: Cell, now: Cell): void {
    const { above, below } = this.#part(row, process, cell);
    row.claimed += now.claim - cell.claim;
    row.used += now.used - cell.used;
    row.short -= Number(this.#isShort(row, process, cell));
    Object.assign(cell, now);
    const after = this.#part(row, process, cell);
    row.short += Number(this.#isShort(row, process, cell));
    row.above += after.above - above;
    row.below += after.below - below;
  }

  /** Returns what a cell adds to the sums `above` and `below` of its row. */
  #part(row: LimitRow, process: string, cell: Cell): { above: number; below: number } {
    return this.#reservesShare(row, process, cell) ? { above: 0, below: 1 } : { above: cell.claim, below: 0 };
  }

  #reservesShare(row: LimitRow, process: string, cell: Cell | undefined): boolean {
    const claim = cell?.claim ?? 0;
    return (
      standingShare(row.limit, row.members) > 0 &&
      cell?.yields !== true &&
      shareDivisor * row.members * claim < row.limit &&
      this.#members.has(process, row.window)
    );
  }

  /** Whether the process wants more than it was granted, and more than its own standing share covers. */
  #isShort(row: LimitRow, process: string, { asked, claim, yields }: Cell): boolean {
    if (asked <= claim) return false;
    const isCovered = asked <= standingShare(row.limit, row.members) && !yields;
    return !(isCovered && this.#members.has(process, row.window));
  }

  /** Recomputes the row's sums after the members or the limit have changed. */
  #reserve(row: LimitRow): void {
    row.epoch = this.#members.epoch;
    row.members = this.#members.count(row.window);
    row.above = 0;
    row.short = 0;
    let withCell = 0;
    let below = 0;
    for (const [process, cell] of row.cells) {
      const isMember = this.#members.has(process, row.window);
      withCell += Number(isMember);
      const part = this.#part(row, process, cell);
      row.above += part.above;
      below += part.below;
      row.short += Number(this.#isShort(row, process, cell));
    }
    row.below = standingShare(row.limit, row.members) > 0 ? below + row.members - withCell : 0;
  }

  /** Removes past minutes and some idle cells of concurrency limits. Returns the number of limits and cells examined. */
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

  #forgetIdle({ subject, window, cells }: LimitRow): void {
    for (const [process, cell] of cells) if (isIdle(cell)) cells.delete(process);
    if (cells.size === 0 && this.#windows.get(window)?.delete(subject)) this.#size--;
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
    const sums = { claimed: 0, used: 0, short: 0, epoch: -1, members: 0, above: 0, below: 0 };
    const row = { subject, window, limit, cells: new Map(), ...sums };
    rows.set(subject, row);
    this.#size++;
    return row;
  }
}

/** Returns the process's cell, creating it if necessary. Unused cells stay until the next sweep. */
function getCell(row: LimitRow, process: string): Cell {
  let cell = row.cells.get(process);
  if (cell === undefined) {
    cell = { used: 0, asked: 0, claim: 0, yields: false, atMs: 0 };
    row.cells.set(process, cell);
  }
  return cell;
}

/** Whether the cell can be removed. It stays if its process gave up its share, or others would reserve the share again. */
function isIdle({ asked, claim, yields }: Cell): boolean {
  return asked + claim === 0 && !yields;
}

function isFarFromRecord(window: number, loggedMs: number | undefined): boolean {
  return (
    window !== inFlightWindow && loggedMs !== undefined && Math.abs(window - loggedMs) > windowDistanceMs
  );
}

/** Number of whole requests in a standing share. 0 if the share is less than one request. */
function standingShare(limit: number, members: number): number {
  return members === 0 ? 0 : Math.floor(limit / (shareDivisor * members));
}

/** Computes a limit's remaining room with integers. Standing shares are fractions, so only the result is rounded. */
function roomLeft({ limit, members }: LimitRow, above: number, below: number): number {
  if (below === 0) return limit - above;
  const parts = shareDivisor * members;
  return Math.floor((parts * (limit - above) - below * limit) / parts);
}
