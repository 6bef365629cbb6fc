/**
 * The claims of all gateways, folded in the order of the log, so that every reader grants the same: a process keeps what it
 * holds, and gets more only where the others leave room. Nobody waits for a leader. Pure: times are passed in.
 */
import { type GaugeEntry, type GaugeRecord, inFlightWindow, type LastSeen } from '../../schemas/gauges.ts';

/** What one process holds of one limit. */
export interface Cell {
  used: number;
  /** What it asked for; more than `claim` where there was no room. */
  asked: number;
  claim: number;
  /** When it was folded here, monotonic ms. */
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

interface ProcessState {
  name: string;
  n: number;
  offset: number;
  /** When its last record was folded here, monotonic ms. */
  foldedMs: number;
  ended: boolean;
}

/** Those that ended are remembered for so long, because a record of theirs may still arrive. */
const endedKeptMs = 600_000;
/** A minute's claims are kept for so long after it began, on this machine's clock. */
const windowKeptMs = 130_000;
/** Limits at most, so that no writer can fill the memory. */
const rowsMax = 200_000;

/** What names a limit: its subject, and the beginning of the minute or `inFlightWindow`. */
export type LimitName = Pick<GaugeEntry, 'subject' | 'window'>;

export class ClaimsFold {
  readonly #processes = new Map<string, ProcessState>();
  /** By window, then by subject: no key is composed for each entry of each record. */
  readonly #windows = new Map<number, Map<string, LimitRow>>();
  #rowCount = 0;
  /** The last record, and the last one of any other process. */
  #last = { process: '', offset: -1 };
  #lastOther = -1;
  #live = 0;
  /** The process that holds all room. */
  #alone: string | undefined;

  /** The offset of the last record that was folded. */
  get offset(): number {
    return this.#last.offset;
  }

  /** Processes that have not ended. */
  get live(): number {
    return this.#live;
  }

  /** The process that holds all room: no other is granted anything until it gives it up, or was silent. */
  get alone(): string | undefined {
    return this.#alone;
  }

  row({ subject, window }: LimitName): LimitRow | undefined {
    return this.#windows.get(window)?.get(subject);
  }

  *rows(): Generator<LimitRow> {
    for (const rows of this.#windows.values()) yield* rows.values();
  }

  claimOf(process: string, limit: LimitName): number {
    return this.row(limit)?.cells.get(process)?.claim ?? 0;
  }

  hasEnded(process: string): boolean {
    return this.#processes.get(process)?.ended === true;
  }

  nameOf(process: string): string | undefined {
    return this.#processes.get(process)?.name;
  }

  lastSeen(process: string): LastSeen {
    return [process, this.#processes.get(process)?.offset ?? 0];
  }

  /** The live processes but one, and when a record of each was last folded here. */
  *others(process: string): IterableIterator<{ readonly process: string } & Readonly<ProcessState>> {
    for (const [id, state] of this.#processes)
      if (id !== process && !state.ended) yield { ...state, process: id };
  }

  /** False where the record is a repetition, or of a process that has ended. */
  apply(record: GaugeRecord, offset: number, nowMs: number): boolean {
    const { process, alone } = record;
    const lastOfOthers = process === this.#last.process ? this.#lastOther : this.#last.offset;
    if (process !== this.#last.process) this.#lastOther = this.#last.offset;
    this.#last = { process, offset };
    if (!this.#isNew(record, offset, nowMs)) return false;
    for (const each of record.ended) this.#end(each, nowMs);
    for (const [id, seen] of record.silent)
      if (this.#alone === id && (this.#processes.get(id)?.offset ?? 0) <= seen) this.#alone = undefined;
    if (alone === undefined && this.#alone === process) this.#alone = undefined;
    // Room is taken whole only where nothing of another process is in the log since the writer read it, and by no last record.
    if (alone !== undefined && lastOfOthers <= alone && !this.hasEnded(process)) this.#alone ??= process;
    for (const entry of record.entries) this.#fold(process, entry, nowMs);
    return true;
  }

  #isNew({ process, name, n }: GaugeRecord, offset: number, foldedMs: number): boolean {
    const known = this.#processes.get(process);
    if (known !== undefined && (known.ended || n <= known.n)) return false;
    if (known === undefined) this.#live++;
    this.#processes.set(process, { name, n, offset, foldedMs, ended: false });
    return true;
  }

  /** Forgets past minutes and processes that ended long ago. */
  sweep(nowMs: number, wallMs: number): void {
    for (const { subject, window, claimed, short } of this.rows()) {
      const isPast = window === inFlightWindow ? claimed + short === 0 : window + windowKeptMs < wallMs;
      if (isPast && this.#windows.get(window)?.delete(subject)) this.#rowCount--;
    }
    for (const [window, rows] of this.#windows) if (rows.size === 0) this.#windows.delete(window);
    for (const [id, { ended, foldedMs }] of this.#processes)
      if (ended && foldedMs + endedKeptMs < nowMs) this.#processes.delete(id);
  }

  #end([process, seen]: LastSeen, nowMs: number): void {
    const known = this.#processes.get(process);
    // A later record is in the log: it was not silent.
    if (known !== undefined && (known.ended || known.offset > seen)) return;
    if (known === undefined) {
      const state = { name: '', n: 0, offset: 0, foldedMs: nowMs, ended: true };
      this.#processes.set(process, state);
      return;
    }
    Object.assign(known, { ended: true, foldedMs: nowMs });
    this.#live--;
    if (this.#alone === process) this.#alone = undefined;
    // What was admitted in a minute was admitted; what was in flight is over.
    for (const row of this.rows()) {
      const cell = row.cells.get(process);
      if (cell === undefined) continue;
      if (row.window === inFlightWindow)
        this.#set(row, process, cell, { used: 0, asked: 0, claim: 0, atMs: nowMs });
      else this.#set(row, process, cell, { ...cell, asked: cell.claim });
    }
  }

  #fold(process: string, { subject, window, limit, used, claim: asked }: GaugeEntry, atMs: number): void {
    const row = this.#rowOf(subject, window, limit);
    if (row === undefined) return;
    row.limit = limit;
    const cell = row.cells.get(process);
    const held = cell?.claim ?? 0;
    const isBlocked = this.#alone !== undefined && this.#alone !== process;
    const room = isBlocked ? 0 : limit - (row.claimed - held);
    const claim = Math.max(used, Math.min(asked, Math.max(held, room)));
    this.#set(row, process, cell, { used, asked, claim, atMs });
  }

  #rowOf(subject: string, window: number, limit: number): LimitRow | undefined {
    let rows = this.#windows.get(window);
    const known = rows?.get(subject);
    if (known !== undefined) return known;
    if (this.#rowCount >= rowsMax) return undefined;
    if (rows === undefined) {
      rows = new Map();
      this.#windows.set(window, rows);
    }
    const row = { subject, window, limit, cells: new Map(), claimed: 0, short: 0 };
    rows.set(subject, row);
    this.#rowCount++;
    return row;
  }

  /** `cell`: what the process has there now, which is changed in place. */
  #set(row: LimitRow, process: string, cell: Cell | undefined, next: Cell): void {
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
}
