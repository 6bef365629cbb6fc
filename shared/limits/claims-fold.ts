/**
 * The claims of all gateways, folded in the order of the log, so that every reader grants the same: a process keeps what it
 * holds, and gets more only where the others leave room. Nobody waits for a leader. Pure: times are passed in.
 */
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
  /** When its last record was folded here, monotonic ms. */
  foldedMs: number;
  ended: boolean;
  /** Minutes in which it is a member begin from here on, and until there, ms since 1970. */
  from: number;
  until: number;
  /** All have read its first record, or are cut off. */
  isKnown: boolean;
}

/** How long a record about weight in flight says what is in flight. */
const certainMs = 250;
/** Those that ended are remembered for so long, because a record of theirs may still arrive. */
const endedKeptMs = 600_000;
/** A process that another one replaced on its data folder may have used its share until then, by a clock that is ahead. */
const replacedMs = 1000;
/** Who writes by a clock this far from that of the log is a member of no minute: it would join some that have begun. */
export const clockOffMs = 30_000;
/** One that was silent had been cut off for longer than this when others ended it, and has used no share since. */
const cutOffBeforeMs = 5000;

/** Who has not read a record for so long is cut off, by the time of the log. */
const knownMs = 3000;

const noCell = { claim: 0, yields: false };

export class ClaimsFold implements Members {
  readonly #processes = new Map<string, ProcessState>();
  /** The last record, and the last one of any other process. */
  #last = { process: '', offset: -1 };
  #lastOther = -1;
  #live = 0;
  /** Live processes that not all may know yet, and when all do, by the time of the log, ms since 1970. */
  readonly #joining = new Map<string, number>();
  /** The process that holds all room. */
  #alone: string | undefined;

  #epoch = 0;

  readonly #rows = new ClaimsRows(this);

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
   * Processes that have a standing share of limits in flight, or of this minute. Of what is in flight those that all know: until
   * then the others may use what their share was without the new one, and nobody else gets that.
   */
  count(window: number): number {
    if (window === inFlightWindow) return this.#live - this.#joining.size;
    let count = 0;
    for (const state of this.#processes.values()) count += Number(isOfMinute(state, window));
    return count;
  }

  sharers(window: number, members: number): number {
    return window === inFlightWindow && members > 0 ? this.#live : members;
  }

  has(process: string, window: number): boolean {
    const state = this.#processes.get(process);
    if (state === undefined) return false;
    return window === inFlightWindow ? state.isKnown && !state.ended : isOfMinute(state, window);
  }

  /** Minutes that begin from here on have the process as a member, as far as the log is read. */
  memberFrom(process: string): number {
    return this.#processes.get(process)?.from ?? Number.POSITIVE_INFINITY;
  }

  /** Limits that are known. */
  get size(): number {
    return this.#rows.size;
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

  /** The live processes but one, and when a record of each was last folded here. */
  *others(process: string): IterableIterator<{ readonly process: string } & Readonly<ProcessState>> {
    for (const [id, state] of this.#processes)
      if (id !== process && !state.ended) yield { ...state, process: id };
  }

  /** Processes other than this one whose last record was folded no later than that, monotonic ms. */
  silentBefore(foldedMs: number, process: string): LastSeen[] {
    const silent: LastSeen[] = [];
    for (const [id, { ended, foldedMs: last, offset }] of this.#processes)
      if (id !== process && !ended && last <= foldedMs) silent.push([id, offset]);
    return silent;
  }

  /** What the others leave of the limit: neither claimed nor their share. May be below 0. */
  left(process: string, limit: Limit, row = this.row(limit)): number {
    if (row !== undefined) {
      // Of a limit that was raised the others learn by a record; one that holds all room needs none.
      const more = this.#alone === process ? Number.POSITIVE_INFINITY : 0;
      return this.#rows.left(row, process) + Math.min(more, limit.limit - row.limit);
    }
    const others = this.count(limit.window) - Number(this.has(process, limit.window));
    return limit.limit - others * this.#rows.reservedOf(limit.window, limit.limit);
  }

  /**
   * How much of its grant a process may use. While claims exceed the limit (for requests in flight, claims and reserved shares), a
   * process may not replace what ends.
   */
  kept(process: string, limit: Limit, granted: number): number {
    const row = this.row(limit);
    const excess = (row?.claimed ?? 0) - limit.limit;
    return Math.min(
      granted,
      limit.window === inFlightWindow ? this.left(process, limit, row) : granted - excess,
    );
  }

  /** What others use by their last records; a weight in flight may have ended since. */
  usedByOthers(process: string, limit: LimitName): number {
    const row = this.row(limit);
    return row === undefined ? 0 : row.used - (row.cells.get(process)?.used ?? 0);
  }

  /**
   * What nobody else gives up: what others use for certain, as a weight in flight may have ended since its record, and what
   * processes that ended hold of a minute, because they may have used it.
   */
  keptByOthers(process: string, limit: Limit, nowMs: number): number {
    const isMinute = limit.window !== inFlightWindow;
    let kept = 0;
    for (const [other, cell] of this.row(limit)?.cells ?? [])
      if (other !== process && (isMinute || nowMs - cell.atMs <= certainMs))
        kept += this.hasEnded(other) ? this.#keptBy(other, limit, cell) : cell.used;
    if (!isMinute) return kept;
    for (const [other, state] of this.#processes)
      if (state.ended && isOfMinute(state, limit.window) && !this.row(limit)?.cells.has(other))
        kept += this.#keptBy(other, limit);
    return kept;
  }

  #keptBy(ended: string, limit: Limit, { claim, yields }: Pick<Cell, 'claim' | 'yields'> = noCell): number {
    const isMember = !yields && this.has(ended, limit.window);
    return Math.max(claim, isMember ? this.#rows.reservedOf(limit.window, limit.limit) : 0);
  }

  /** False where the record is a repetition, or of a process that has ended. `loggedMs`: the time that the log gave it. */
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
    // Room is taken whole only where nothing of another process is in the log since the writer read it, and by no last record.
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
    // What was once believed of the same moment stays, as it does for those who read it then.
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

  /** Forgets what is over, a part with each call, and processes that ended long ago. Returns as the sweep of the rows. */
  sweep(nowMs: number, wallMs: number): number {
    for (const [id, { ended, foldedMs }] of this.#processes)
      if (ended && foldedMs + endedKeptMs < nowMs) this.#processes.delete(id);
    return this.#rows.sweep(wallMs);
  }

  #end([process, seen]: LastSeen, by: GaugeRecord, nowMs: number, loggedMs: number = by.at): void {
    const known = this.#processes.get(process);
    // A later record is in the log: it was not silent.
    if (known !== undefined && (known.ended || known.offset > seen)) return;
    // A clean stop has said all that it used, unless that was more than a record may have.
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

function isOfMinute({ from, until }: ProcessState, window: number): boolean {
  return from <= window && window <= until;
}
