/**
 * The claims of all gateways, folded in the order of the log, so that every reader grants the same: a process keeps what it
 * holds, and gets more only where the others leave room. Nobody waits for a leader. Pure: times are passed in.
 */
import type { GaugeRecord, LastSeen } from '../../schemas/gauges.ts';
import { ClaimsRows, type LimitName, type LimitRow } from './claims-rows.ts';

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

export class ClaimsFold {
  readonly #processes = new Map<string, ProcessState>();
  /** The last record, and the last one of any other process. */
  #last = { process: '', offset: -1 };
  #lastOther = -1;
  #live = 0;
  /** The process that holds all room. */
  #alone: string | undefined;

  readonly #rows = new ClaimsRows();

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
    const { process } = record;
    const lastOfOthers = process === this.#last.process ? this.#lastOther : this.#last.offset;
    if (process !== this.#last.process) this.#lastOther = this.#last.offset;
    this.#last = { process, offset };
    if (!this.#isNew(record, offset, nowMs)) return false;
    for (const each of record.ended) this.#end(each, nowMs);
    this.#setAlone(record, lastOfOthers);
    const isBlocked = this.#alone !== undefined && this.#alone !== process;
    this.#rows.fold({ process, entries: record.entries, isBlocked, atMs: nowMs });
    return true;
  }

  #setAlone({ process, silent, alone }: GaugeRecord, lastOfOthers: number): void {
    for (const [id, seen] of silent)
      if (this.#alone === id && (this.#processes.get(id)?.offset ?? 0) <= seen) this.#alone = undefined;
    if (alone === undefined && this.#alone === process) this.#alone = undefined;
    // Room is taken whole only where nothing of another process is in the log since the writer read it, and by no last record.
    if (alone !== undefined && lastOfOthers <= alone && !this.hasEnded(process)) this.#alone ??= process;
  }

  #isNew({ process, name, n }: GaugeRecord, offset: number, foldedMs: number): boolean {
    const known = this.#processes.get(process);
    if (known !== undefined && (known.ended || n <= known.n)) return false;
    if (known === undefined) this.#live++;
    this.#processes.set(process, { name, n, offset, foldedMs, ended: false });
    return true;
  }

  /** Forgets what is over, a part with each call, and processes that ended long ago. Returns as the sweep of the rows. */
  sweep(nowMs: number, wallMs: number): number {
    for (const [id, { ended, foldedMs }] of this.#processes)
      if (ended && foldedMs + endedKeptMs < nowMs) this.#processes.delete(id);
    return this.#rows.sweep(wallMs);
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
    this.#rows.end(process);
  }
}
