/** What is claimed of each limit, folded from the entries of records in the order of the log. Pure: times are passed in. */
import { type GaugeEntry, inFlightWindow } from '../../schemas/records/gauges.ts';

/** What one process holds of one limit. */
export interface Cell {
  used: number;
  /** What it asked for; more than `claim` where there was no room. */
  asked: number;
  claim: number;
  /** It has given up its standing share. */
  yields: boolean;
  /** When it was read here, monotonic ms. */
  atMs: number;
}

/**
 * Who has a standing share of a limit: room that each member may use without asking, and that the others leave alone.
 * A function of the log's prefix, so every reader knows the same.
 */
export interface Members {
  /** Another one whenever any answer may have changed. */
  readonly epoch: number;
  /** Those to whom the others leave a share. */
  count(window: number): number;
  /** Those among whom who uses a share divides: of what is in flight also those that the others may not know yet. */
  sharers(window: number, members: number): number;
  has(process: string, window: number): boolean;
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
  /** Sum of what is used, by the last records. */
  used: number;
  /** Processes that asked for more than they got. */
  short: number;
  /** Of whom the two sums below are. */
  epoch: number;
  members: number;
  /** Sum of the claims of those that reserve no more than their claim. */
  above: number;
  /** Members that reserve their standing share, whether they have a cell or not. */
  below: number;
}

/** A minute's claims are kept for so long after it began, on this machine's clock. */
const windowKeptMs = 130_000;
/** A minute further away from the time of its record would only take memory. */
const windowDistanceMs = 200_000;
/** Limits at most, so that no writer can fill the memory. */
const rowsMax = 200_000;
/** Limits and cells that one sweep looks at, and the cells of one limit more. */
const sweptAtOnce = 5_000;

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
  /** The time of their record, ms since 1970: that of the log, which all readers share. */
  readonly loggedMs: number | undefined;
}

/** A standing share is that part of the limit over all members: the rest is claimed by those that need it. */
const sharesOfLimit = 2;

export class ClaimsRows {
  readonly #members: Members;
  /** By window, then by subject: no key is composed for each entry of each record. */
  readonly #windows = new Map<number, Map<string, LimitRow>>();
  #size = 0;
  /** Where the next sweep continues. */
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

  /** What is left to each member of a limit that nobody has a cell of; 0 where it is less than one. */
  reservedOf(window: number, limit: number): number {
    return shareOf(limit, this.#members.count(window));
  }

  /** The standing share that a member uses, at most of what the row says where the limit is known; 0 where it is less than one. */
  shareOf(window: number, limit: number, row: LimitRow | undefined): number {
    const members = row === undefined ? this.#members.count(window) : row.members;
    return shareOf(Math.min(limit, row?.limit ?? limit), this.#members.sharers(window, members));
  }

  /** What the others leave of the limit: what is neither claimed nor their standing share. May be below 0. */
  left(row: LimitRow, process: string): number {
    const cell = row.cells.get(process);
    const reserves = this.#reservesShare(row, process, cell);
    return leftOf(row, row.above - (reserves ? 0 : (cell?.claim ?? 0)), row.below - Number(reserves));
  }

  /** Does another process lack what it asked for? */
  lacksElsewhere(row: LimitRow, process: string): boolean {
    const cell = row.cells.get(process);
    return row.short > Number(cell !== undefined && this.#isShort(row, process, cell));
  }

  /** Do all claims and standing shares fit into the limit? */
  fits(row: LimitRow): boolean {
    return leftOf(row, row.above, row.below) >= 0;
  }

  fold({ process, entries, isBlocked, atMs, loggedMs }: EntriesOfProcess): void {
    for (const { subject, window, limit, used, claim: asked, yields = false } of entries) {
      if (isFar(window, loggedMs)) continue;
      const row = this.#rowOf(subject, window, limit);
      if (row === undefined) continue;
      if (row.limit !== limit || row.epoch !== this.#members.epoch) {
        row.limit = limit;
        this.#reserve(row);
      }
      const cell = cellOf(row, process);
      const room = isBlocked ? 0 : this.left(row, process);
      const claim = Math.max(used, Math.min(asked, Math.max(cell.claim, room)));
      this.#set(row, process, cell, { used, asked, claim, yields, atMs });
    }
  }

  /** A process ended: what it admitted in a minute was admitted, what it held in flight is over. Those who are members have changed. */
  end(process: string): void {
    for (const row of this.#rows()) {
      const cell = row.cells.get(process);
      if (cell === undefined) continue;
      // What is reserved, and who lacks room, is summed again.
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

  /** What a cell adds to the two sums of its row. */
  #part(row: LimitRow, process: string, cell: Cell): { above: number; below: number } {
    return this.#reservesShare(row, process, cell) ? { above: 0, below: 1 } : { above: cell.claim, below: 0 };
  }

  #reservesShare(row: LimitRow, process: string, cell: Cell | undefined): boolean {
    const claim = cell?.claim ?? 0;
    return (
      shareOf(row.limit, row.members) > 0 &&
      cell?.yields !== true &&
      sharesOfLimit * row.members * claim < row.limit &&
      this.#members.has(process, row.window)
    );
  }

  /** Does it lack what it asked for? What its own standing share covers is not lacking. */
  #isShort(row: LimitRow, process: string, { asked, claim, yields }: Cell): boolean {
    if (asked <= claim) return false;
    const isCovered = asked <= shareOf(row.limit, row.members) && !yields;
    return !(isCovered && this.#members.has(process, row.window));
  }

  /** Sums again what is reserved, after the members or the limit changed. */
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
    row.below = shareOf(row.limit, row.members) > 0 ? below + row.members - withCell : 0;
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

/** What holds nothing any more remains until a sweep comes to it: it is likely to be used again before. */
function cellOf(row: LimitRow, process: string): Cell {
  let cell = row.cells.get(process);
  if (cell === undefined) {
    cell = { used: 0, asked: 0, claim: 0, yields: false, atMs: 0 };
    row.cells.set(process, cell);
  }
  return cell;
}

/** Without a cell a process would reserve its share, so one that yields is kept. */
function isIdle({ asked, claim, yields }: Cell): boolean {
  return asked + claim === 0 && !yields;
}

function isFar(window: number, loggedMs: number | undefined): boolean {
  return (
    window !== inFlightWindow && loggedMs !== undefined && Math.abs(window - loggedMs) > windowDistanceMs
  );
}

/** Whole requests of a standing share; 0 where it is less than one. */
function shareOf(limit: number, members: number): number {
  return members === 0 ? 0 : Math.floor(limit / (sharesOfLimit * members));
}

/** In whole numbers: a share is a fraction, and what is left is rounded once. */
function leftOf({ limit, members }: LimitRow, above: number, below: number): number {
  if (below === 0) return limit - above;
  const parts = sharesOfLimit * members;
  return Math.floor((parts * (limit - above) - below * limit) / parts);
}
