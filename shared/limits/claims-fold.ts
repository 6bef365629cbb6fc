/** Folds gateways' claims on shared limits in log order. Must not read a clock, so that all readers get equal results. */
import {
  type GaugeRecord,
  gaugeEntriesMax,
  inFlightWindow,
  type LastSeen,
} from '../../schemas/records/gauges.ts';
import {
  type Cell,
  ClaimsRows,
  type Limit,
  type LimitName,
  type LimitRow,
  type Members,
} from './claims-rows.ts';

interface ProcessState {
  name: string;
  n: number;
  offset: number;
  /** Monotonic time in ms at which the process's last record was folded here. */
  foldedMs: number;
  ended: boolean;
  /** Starts of the first and the last minute in which the process has a standing share, in ms since 1970. */
  from: number;
  until: number;
  /** Whether every other process has read this process's first record or is cut off. */
  isKnown: boolean;
}

/** Age in ms up to which a process's record of its weight in flight is considered exact. */
const certainMs = 250;
/** Time in ms for which ended processes are remembered, because late records from them may still arrive. */
const endedKeptMs = 600_000;
/** Time in ms for which a process that another has replaced may still use its share, because its clock may be ahead. */
const replacedMs = 1000;
/** Largest difference in ms between a writer's clock and the log's. A writer that exceeds it gets no share of minutes. */
export const clockOffMs = 30_000;
/** When other processes end a silent one, the silent one has used no share for at least this time in ms. */
const cutOffBeforeMs = 5000;

/** Time in ms, by the log's clock, after which a process that has read no new record is cut off from the log. */
const knownMs = 3000;

const noCell = { claim: 0, yields: false };

export class ClaimsFold implements Members {
  readonly #processes = new Map<string, ProcessState>();
  /** Last record's process and offset. `#lastOther` is the offset of the last record by any other process. */
  #last = { process: '', offset: -1 };
  #lastOther = -1;
  #live = 0;
  /** Live processes that others may not know of yet, with the log time in ms since 1970 at which all will know. */
  readonly #joining = new Map<string, number>();
  #alone: string | undefined;

  #epoch = 0;

  readonly #rows = new ClaimsRows(this);

  get offset(): number {
    return this.#last.offset;
  }

  /** Number of processes that have not ended. */
  get live(): number {
    return this.#live;
  }

  /** Process that holds all room of all limits. Others are granted none until it gives that up, ends or falls silent. */
  get alone(): string | undefined {
    return this.#alone;
  }

  row(limit: LimitName): LimitRow | undefined {
    return this.#rows.row(limit);
  }

  get rows(): ClaimsRows {
    return this.#rows;
  }

  get epoch(): number {
    return this.#epoch;
  }

  /**
   * Counts the processes with a standing share of the window. For a limit on concurrency, a new process is not counted until
   * all others know of it, because their shares are computed without it.
   */
  count(window: number): number {
    if (window === inFlightWindow) return this.#live - this.#joining.size;
    let count = 0;
    for (const state of this.#processes.values()) count += Number(isMemberInMinute(state, window));
    return count;
  }

  sharers(window: number, members: number): number {
    return window === inFlightWindow && members > 0 ? this.#live : members;
  }

  has(process: string, window: number): boolean {
    const state = this.#processes.get(process);
    if (state === undefined) return false;
    return window === inFlightWindow ? state.isKnown && !state.ended : isMemberInMinute(state, window);
  }

  /** Start of the first minute in which the process has a standing share, according to the records folded so far. */
  memberFrom(process: string): number {
    return this.#processes.get(process)?.from ?? Number.POSITIVE_INFINITY;
  }

  get size(): number {
    return this.#rows.size;
  }

  findClaim(process: string, limit: LimitName): number {
    return this.row(limit)?.cells.get(process)?.claim ?? 0;
  }

  hasEnded(process: string): boolean {
    return this.#processes.get(process)?.ended === true;
  }

  findName(process: string): string | undefined {
    return this.#processes.get(process)?.name;
  }

  /** Yields all live processes except the given one, with the times at which their last records were folded. */
  *others(process: string): IterableIterator<{ readonly process: string } & Readonly<ProcessState>> {
    for (const [id, state] of this.#processes)
      if (id !== process && !state.ended) yield { ...state, process: id };
  }

  /** Returns the live processes, other than `process`, whose last record was folded no later than `foldedMs` (monotonic). */
  silentBefore(foldedMs: number, process: string): LastSeen[] {
    const silent: LastSeen[] = [];
    for (const [id, { ended, foldedMs: last, offset }] of this.#processes)
      if (id !== process && !ended && last <= foldedMs) silent.push([id, offset]);
    return silent;
  }

  /** Room in the limit that other processes neither claim nor reserve as standing shares. May be negative. */
  left(process: string, limit: Limit, row = this.row(limit)): number {
    if (row !== undefined) {
      // A raised limit counts once others learn of it from a record, or at once for a process that holds all the room.
      const more = this.#alone === process ? Number.POSITIVE_INFINITY : 0;
      return this.#rows.left(row, process) + Math.min(more, limit.limit - row.limit);
    }
    const others = this.count(limit.window) - Number(this.has(process, limit.window));
    return limit.limit - others * this.#rows.reservedShare(limit.window, limit.limit);
  }

  /** Returns how much granted room a process may use. While claims exceed the limit, room that others free stays unused. */
  kept(process: string, limit: Limit, granted: number): number {
    const row = this.row(limit);
    const excess = (row?.claimed ?? 0) - limit.limit;
    return Math.min(
      granted,
      limit.window === inFlightWindow ? this.left(process, limit, row) : granted - excess,
    );
  }

  /** Sum of other processes' use, according to their last records. Some of their requests in flight may have ended since. */
  usedByOthers(process: string, limit: LimitName): number {
    const row = this.row(limit);
    return row === undefined ? 0 : row.used - (row.cells.get(process)?.used ?? 0);
  }

  /**
   * Room that others certainly use. For weight in flight, only recent records count. For a minute, ended processes do too.
   */
  keptByOthers(process: string, limit: Limit, nowMs: number): number {
    const isMinute = limit.window !== inFlightWindow;
    let kept = 0;
    for (const [other, cell] of this.row(limit)?.cells ?? [])
      if (other !== process && (isMinute || nowMs - cell.atMs <= certainMs))
        kept += this.hasEnded(other) ? this.#keptBy(other, limit, cell) : cell.used;
    if (!isMinute) return kept;
    for (const [other, state] of this.#processes)
      if (state.ended && isMemberInMinute(state, limit.window) && !this.row(limit)?.cells.has(other))
        kept += this.#keptBy(other, limit);
    return kept;
  }

  #keptBy(ended: string, limit: Limit, { claim, yields }: Pick<Cell, 'claim' | 'yields'> = noCell): number {
    const isMember = !yields && this.has(ended, limit.window);
    return Math.max(claim, isMember ? this.#rows.reservedShare(limit.window, limit.limit) : 0);
  }

  /** Folds a record. Returns false for a repetition or an ended process. `loggedMs` is the record's log time. */
  apply(record: GaugeRecord, offset: number, nowMs: number, loggedMs?: number): boolean {
    const { process } = record;
    const lastOfOthers = process === this.#last.process ? this.#lastOther : this.#last.offset;
    if (process !== this.#last.process) this.#lastOther = this.#last.offset;
    this.#last = { process, offset };
    if (!this.#isNew(record, offset, nowMs, loggedMs)) return false;
    for (const each of record.ended) this.#end(each, record, nowMs, loggedMs);
    this.#setAlone(record, lastOfOthers);
    const isBlocked = this.#alone !== undefined && this.#alone !== process;
    this.#rows.fold({ process, entries: record.entries, isBlocked, atMs: nowMs, loggedMs });
    return true;
  }

  #setAlone({ process, silent, alone }: GaugeRecord, lastOfOthers: number): void {
    for (const [id, seen] of silent)
      if (this.#alone === id && (this.#processes.get(id)?.offset ?? 0) <= seen) this.#alone = undefined;
    if (alone === undefined && this.#alone === process) this.#alone = undefined;
    // Do not give a process all the room if it had read only up to offset `alone` and another process wrote a record after
    // it.
    if (alone !== undefined && lastOfOthers <= alone && !this.hasEnded(process)) this.#alone ??= process;
  }

  #isNew(
    { process, name, n, at, from: asked = Number.POSITIVE_INFINITY }: GaugeRecord,
    offset: number,
    foldedMs: number,
    loggedMs: number = at,
  ): boolean {
    const known = this.#processes.get(process);
    if (known !== undefined && (known.ended || n <= known.n)) return false;
    const isTrue = Math.abs(at - loggedMs) <= clockOffMs;
    // A start that was accepted earlier stays valid, even if the writer's clock is wrong now, so that all readers agree.
    const from = isTrue || known?.from === asked ? asked : Number.POSITIVE_INFINITY;
    if (known?.from !== from) this.#epoch++;
    if (known === undefined) {
      this.#live++;
      this.#joining.set(process, loggedMs + knownMs);
    }
    const until = Number.POSITIVE_INFINITY;
    const isKnown = known?.isKnown === true;
    this.#processes.set(process, {
      name,
      n,
      offset,
      foldedMs,
      from,
      until,
      isKnown,
      ended: false,
    });
    this.#learn(loggedMs);
    return true;
  }

  #learn(loggedMs: number): void {
    for (const [process, knownAtMs] of this.#joining) {
      if (knownAtMs > loggedMs) continue;
      this.#joining.delete(process);
      this.#epoch++;
      const state = this.#processes.get(process);
      if (state !== undefined) state.isKnown = true;
    }
  }

  /** Removes some of the expired rows, and processes that ended long ago. Returns the number of limits and cells examined. */
  sweep(nowMs: number, wallMs: number): number {
    for (const [id, { ended, foldedMs }] of this.#processes)
      if (ended && foldedMs + endedKeptMs < nowMs) this.#processes.delete(id);
    return this.#rows.sweep(wallMs);
  }

  #end([process, seen]: LastSeen, by: GaugeRecord, nowMs: number, loggedMs: number = by.at): void {
    const known = this.#processes.get(process);
    // The log contains a later record from the process than its judge had read, so the process was not silent.
    if (known !== undefined && (known.ended || known.offset > seen)) return;
    // A process that ends itself has reported everything it used, unless its entries did not fit into one record.
    const isWhole = process === by.process && by.entries.length < gaugeEntriesMax;
    const wasSilent = seen < Number.MAX_SAFE_INTEGER;
    const until = isWhole ? Number.NEGATIVE_INFINITY : loggedMs + (wasSilent ? -cutOffBeforeMs : replacedMs);
    if (known === undefined) {
      const never = { from: Number.POSITIVE_INFINITY, until, isKnown: false };
      this.#processes.set(process, { name: '', n: 0, offset: 0, foldedMs: nowMs, ended: true, ...never });
      return;
    }
    Object.assign(known, { ended: true, foldedMs: nowMs, until });
    this.#live--;
    this.#joining.delete(process);
    this.#epoch++;
    if (this.#alone === process) this.#alone = undefined;
    this.#rows.end(process);
  }
}

function isMemberInMinute({ from, until }: ProcessState, window: number): boolean {
  return from <= window && window <= until;
}
