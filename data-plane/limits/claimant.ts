/**
 * One gateway process's part in the exchange of limits. Admits requests against the claims that the log has granted, decides
 * what to claim and when to publish, and reports which other processes have ended. Uses neither a log nor a clock: `nowMs` is
 * monotonic, and `wallMs` is in ms since 1970.
 */
import {
  type GaugeEntry,
  type GaugeRecord,
  gaugeEntriesMax,
  inFlightWindow,
  type LastSeen,
} from '../../schemas/records/gauges.ts';
import { ClaimsFold } from '../../shared/limits/claims-fold.ts';
import type { Limit, LimitRow } from '../../shared/limits/claims-rows.ts';
import { Farewells } from './farewells.ts';
import { limitKey, OwnLimit, type OwnState } from './own-limit.ts';
import { RoomQueue, type Waiter } from './room-queue.ts';
import { cutOffMs, StandingShare } from './standing-share.ts';

/** Longest time in ms between two records. Changes that can wait do so, because each record is costly to read. */
const quietMsMax = 1000;
/** Silence in ms after which a process that held all the room in the limits loses it, no longer using it (`cutOffMs`). */
const silentMs = 2500;
/** Silence in ms after which another process counts as ended, so that its requests in flight no longer count. */
const endedMs = 10_000;
/** Time in ms without reading back its own records after which a process takes a new id, before others end the old id. */
const renewMs = 8000;
/** A process that was suspended for over `pauseMs` has `resumeMs` to catch up with the log before it counts as cut off. */
const pauseMs = 1000;
const resumeMs = 1500;

export interface ClaimantOptions {
  readonly name: string;
  readonly mint: () => string;
  /** Number of live gateways, as stored by the previous process that used this data folder. */
  readonly live: number;
  /** Id of the process that used this data folder before. That process has certainly ended. */
  readonly predecessor?: string | undefined;
}

export class Claimant {
  #fold = new ClaimsFold();
  readonly #options: ClaimantOptions;
  readonly #own = new Map<string, OwnLimit>();
  readonly #waiters = new RoomQueue();
  #process: string;
  #n = 0;
  #readN = 0;
  /** Send time of the latest record that this process has read back, in monotonic ms. */
  #readSentMs = Number.NEGATIVE_INFINITY;
  readonly #sentMs = new Map<number, number>();
  #sentAtMs = Number.NEGATIVE_INFINITY;
  #share: StandingShare;
  /** Number of the last record in which this process gave up holding all the room in the limits. */
  #yieldedN = 0;
  #live: number;
  /** The process that used this data folder before, until the log shows that it has ended. */
  #ended: LastSeen[] = [];
  readonly #farewells = new Farewells();
  #isUrgent = false;
  #tickMs = Number.NEGATIVE_INFINITY;
  /** Wall clock minus monotonic clock, in ms. */
  #wallAheadMs = 0;
  #resumedMs = Number.NEGATIVE_INFINITY;

  constructor(options: ClaimantOptions) {
    this.#options = options;
    this.#process = options.mint();
    this.#share = new StandingShare(this.#fold, this.#process);
    this.#live = Math.max(1, options.live);
    if (options.predecessor !== undefined) this.#ended = [[options.predecessor, Number.MAX_SAFE_INTEGER]];
  }

  get fold(): ClaimsFold {
    return this.#fold;
  }

  get process(): string {
    return this.#process;
  }

  /** Number of live gateways when this process last read back one of its own records. */
  get live(): number {
    return this.#live;
  }

  /** Whether this process neither uses nor claims any part of a limit. */
  get isIdle(): boolean {
    return this.#own.size === 0;
  }

  get isAwaited(): boolean {
    return this.#waiters.size > 0;
  }

  /** Whether a waiting request may have room now, in which case `settle` must be called. */
  get mayRelease(): boolean {
    return this.#waiters.mayFit && this.isAwaited;
  }

  /** Whether to send a record soon: a request waits here, or another gateway lacks room that is not needed here. */
  get isUrgent(): boolean {
    return this.#isUrgent;
  }

  /** Time in ms since sending the latest record that this process has read back. */
  feedAgeMs(nowMs: number): number {
    return nowMs - this.#readSentMs;
  }

  isCutOff(nowMs: number): boolean {
    return this.feedAgeMs(nowMs) > cutOffMs;
  }

  /** Whether the claims in the log can decide requests. If not, this gateway may only use its own share of each limit. */
  isReady(nowMs: number): boolean {
    if (this.isCutOff(nowMs)) return false;
    return this.#fold.alone === this.#process || (this.#fold.alone === undefined && this.#fold.live > 1);
  }

  /** Whether this process holds all the room in all limits. It takes the room only while no other gateway is live. */
  get isAlone(): boolean {
    return this.#fold.alone === this.#process && this.#yieldedN <= this.#readN;
  }

  used(limit: Limit): number {
    return this.#own.get(limitKey(limit))?.used ?? 0;
  }

  /** Total weight of the requests that are waiting for the limit. */
  waitingFor(limit: Limit): number {
    return this.#own.get(limitKey(limit))?.waiting ?? 0;
  }

  /** Total weight that this process may use of the limit now, including the weight that it already uses. */
  room(limit: Limit, nowMs: number): number {
    const row = this.#fold.row(limit);
    const claim = row?.cells.get(this.#process)?.claim ?? 0;
    const isAlone = this.isAlone;
    const own = isAlone ? undefined : this.#own.get(limitKey(limit));
    const smallest = isAlone ? claim : (own?.smallestSent() ?? claim);
    const granted = Math.min(claim, smallest);
    if (this.isCutOff(nowMs)) {
      const share = Math.max(1, Math.floor(limit.limit / this.#live));
      // A claim on a minute stays valid. A claim on weight in flight ends once other gateways consider this process ended.
      const mayHaveEnded = limit.window === inFlightWindow && this.feedAgeMs(nowMs) > renewMs;
      return mayHaveEnded ? share : Math.max(granted, share);
    }
    if (isAlone) return Math.max(granted, this.#fold.left(this.#process, limit, row));
    return Math.max(this.#fold.kept(this.#process, limit, granted), this.#share.level(limit, row, own));
  }

  admits(limit: Limit, weight: number, nowMs: number): boolean {
    const used = this.used(limit);
    return used + weight <= this.room(limit, nowMs) || (used === 0 && this.#isFirst(limit, weight, nowMs));
  }

  /**
   * Whether this process's first request under a limit may start before its claim is granted. It may if the limit has no
   * standing shares, and if every live gateway could start such a request with the room that is unclaimed.
   */
  #isFirst(limit: Limit, weight: number, nowMs: number): boolean {
    if (this.isCutOff(nowMs) || this.#fold.alone !== undefined) return false;
    const row = this.#fold.row(limit);
    if (this.#fold.rows.standingShare(limit.window, limit.limit, row) > 0) return false;
    return weight * this.#live <= limit.limit - (row?.claimed ?? 0);
  }

  add(limit: Limit, weight: number, nowMs: number): void {
    this.#ownOf(limit).admitted(weight, nowMs);
  }

  remove(limit: Limit, weight: number): void {
    const own = this.#own.get(limitKey(limit));
    if (own === undefined) return;
    own.used = Math.max(0, own.used - weight);
    if (own.waiting > 0) this.#waiters.mayFit = true;
    if (this.#fold.row(own)?.short) this.#isUrgent = true;
  }

  /**
   * Makes a request wait, because the log may grant it room. It waits until `untilMs`, or longer as described at `expire`.
   * `done` receives whether to decide the request again. Returns undefined if waiting cannot help.
   */
  wait(limit: Limit, weight: number, untilMs: number, nowMs: number, done: (again: boolean) => void) {
    if (this.isAlone || (this.isCutOff(nowMs) && !this.#hasResumed(nowMs))) return undefined;
    const isLeft = this.isLeft(limit, weight + this.waitingFor(limit), nowMs);
    // The refusal lets this process keep its standing share, although other processes lack room, too.
    if (!isLeft) return this.#ownOf(limit).noteRefusal(nowMs);
    this.#isUrgent = true;
    return this.#waiters.add({ own: this.#ownOf(limit), weight, sinceMs: nowMs, untilMs, done });
  }

  cancel(waiter: Waiter): void {
    this.#waiters.remove(waiter);
  }

  /**
   * Releases requests whose waiting time is over. A request whose claim has not been answered keeps waiting until this
   * process counts as cut off. Then the process's own share decides, so that a slow log never causes a refusal.
   */
  expire(nowMs: number): void {
    this.#notePause(nowMs);
    const answeredMs = this.isCutOff(nowMs) ? Number.POSITIVE_INFINITY : this.#readSentMs;
    this.#waiters.expire(({ sinceMs, untilMs }) => untilMs <= nowMs && sinceMs < answeredMs);
  }

  /** Detects that this process was suspended. A timer calls this often; even a slow log does not delay these calls. */
  #notePause(nowMs: number): void {
    if (nowMs - this.#tickMs > pauseMs) this.#resumedMs = nowMs;
    this.#tickMs = nowMs;
  }

  /** Whether this process was just suspended and has not yet read what the log received in the meantime. */
  #hasResumed(nowMs: number): boolean {
    return nowMs - this.#tickMs > pauseMs || nowMs - this.#resumedMs <= resumeMs;
  }

  /** Whether the limit has room for `weight` besides what this process uses and what other gateways are known to hold. */
  isLeft(limit: Limit, weight: number, nowMs: number): boolean {
    return this.used(limit) + weight <= limit.limit - this.#fold.keptByOthers(this.#process, limit, nowMs);
  }

  /** Folds a record that the log stored at `loggedMs`, in ms since 1970. Returns false if the record changes nothing. */
  onRecord(record: GaugeRecord, offset: number, nowMs: number, loggedMs?: number): boolean {
    const { epoch } = this.#fold;
    if (!this.#fold.apply(record, offset, nowMs, loggedMs)) return false;
    // The members changed. A share that has shrunk must not grow back while all shares together exceed the limit.
    if (this.#fold.epoch !== epoch)
      for (const own of this.#own.values()) this.#share.level(own, this.#fold.row(own), own);
    if (record.process === this.#process) this.#readBack(record.n, nowMs);
    else this.#onOther(record.entries, nowMs);
    return true;
  }

  /** Starts with a new fold after the log was replaced or lost its end. All gateways then publish their use again. */
  restart(): void {
    this.#fold = new ClaimsFold();
    // The new log does not know this process, so all its use counts under its next id.
    this.#share = new StandingShare(this.#fold, this.#process);
    this.#renew();
  }

  #readBack(n: number, nowMs: number): void {
    this.#readN = n;
    this.#share.readBack(n, nowMs + this.#wallAheadMs);
    const sentMs = this.#sentMs.get(n);
    if (sentMs !== undefined) this.#readSentMs = sentMs;
    for (const each of this.#sentMs.keys()) if (each <= n) this.#sentMs.delete(each);
    for (const own of this.#own.values()) own.readBack(n);
    this.#live = Math.max(1, this.#fold.live);
    this.#ended = this.#ended.filter(([process]) => !this.#fold.hasEnded(process));
    if (this.#mayBeAlone(nowMs)) this.#isUrgent = true;
    this.#waiters.mayFit = true;
  }

  #onOther(entries: readonly GaugeEntry[], nowMs: number): void {
    if (this.#fold.hasEnded(this.#process)) this.#renew();
    // Another process is live, so publish at once what this process has used without a claim.
    if (this.isAlone) this.#isUrgent = true;
    let isAwaited = false;
    for (const entry of entries) {
      const own = this.#own.get(limitKey(entry)) ?? this.#lacking(entry);
      if (own === undefined) continue;
      if (own.waiting > 0) isAwaited = true;
      if (this.#dueOf(own, nowMs) === 'now') this.#isUrgent = true;
    }
    if (isAwaited) this.#waiters.mayFit = true;
  }

  /** Starts tracking a limit in which another process lacks room, so that this process can give up its share of it. */
  #lacking(entry: GaugeEntry): OwnLimit | undefined {
    const row = this.#fold.row(entry);
    if (row === undefined || row.short === 0 || this.#share.of(entry, row) === 0) return undefined;
    return this.#ownOf(entry);
  }

  /**
   * Releases the waiting requests that fit now or never will. Before this is called, requests released earlier must have
   * taken their room. Otherwise the same room is given out twice, and one of the requests is refused.
   */
  settle(nowMs: number): void {
    this.#waiters.settle((own, ahead, weight) => {
      if (own.used + ahead + weight <= this.room(own, nowMs)) return 'fits';
      const left = own.limit - this.#fold.keptByOthers(this.#process, own, nowMs);
      return own.used + weight > left ? 'never' : 'waits';
    });
  }

  /** Returns the records to publish now. With `urgent`, returns none unless a change cannot wait until the next tick. */
  records(nowMs: number, wallMs: number, urgent = false): GaugeRecord[] {
    this.#isUrgent = false;
    this.#notePause(nowMs);
    this.#wallAheadMs = wallMs - nowMs;
    if (this.#readN > 0 && nowMs - this.#readSentMs > renewMs) this.#renew();
    const yields = this.isAlone && this.#fold.live > 1;
    const { due, isQuiet } = this.#due(nowMs, wallMs, urgent, yields);
    const isTime = nowMs - this.#sentAtMs >= quietMsMax;
    if (isQuiet && !yields && !isTime && !this.#mayBeAlone(nowMs)) return [];
    const records = this.#farewells.repeat(this.#fold);
    for (let from = 0; from === 0 || from < due.length; from += gaugeEntriesMax) {
      const isLast = from + gaugeEntriesMax >= due.length;
      records.push(this.#record(due.slice(from, from + gaugeEntriesMax), nowMs, yields && isLast));
    }
    return records;
  }

  /** Limits to include in the next record, and whether none of them requires a record now. */
  #due(nowMs: number, wallMs: number, urgent: boolean, yields: boolean) {
    const due: OwnLimit[] = [];
    let isQuiet = true;
    for (const own of this.#own.values()) {
      const when = this.#dueOf(own, nowMs);
      if (when === 'now' || (when === 'at the tick' && !urgent)) isQuiet = false;
      if (when !== 'no' || (yields && own.used > 0)) due.push(own);
      else if (own.isOver(this.#readN, wallMs)) this.#own.delete(own.key);
    }
    return { due, isQuiet };
  }

  #record(due: readonly OwnLimit[], nowMs: number, yields: boolean): GaugeRecord {
    const n = ++this.#n;
    const atMs = nowMs + this.#wallAheadMs;
    this.#share.announce(n, atMs);
    const wasAlone = this.isAlone;
    const takesAll = !yields && (wasAlone || this.#mayBeAlone(nowMs));
    if (yields) this.#yieldedN = n;
    this.#sentMs.set(n, nowMs);
    this.#sentAtMs = nowMs;
    const entries = due.map((own): GaugeEntry => {
      const row = this.#fold.row(own);
      const state = this.#stateOf(own, row, takesAll);
      const wanted = own.wanted(row, row?.cells.get(this.#process), state, nowMs);
      return own.entry(n, wanted, own.yields(state, nowMs), nowMs);
    });
    return {
      process: this.#process,
      name: this.#options.name,
      n,
      entries,
      at: Math.max(0, Math.round(atMs)),
      from: this.#share.from,
      ...(takesAll && { alone: Math.max(0, this.#fold.offset) }),
      ended: [...this.#ended, ...this.#fold.silentBefore(this.#readSentMs - endedMs, this.#process)],
      silent: this.#fold
        .silentBefore(this.#readSentMs - silentMs, this.#process)
        .filter(([process]) => process === this.#fold.alone),
    };
  }

  /** Returns the last record of a process that stops cleanly. What it used in the current minute still counts. */
  goodbye(nowMs: number): GaugeRecord {
    // A record without `alone` also gives up holding all the room in the limits.
    const minutes = [...this.#own.values()].filter(({ window }) => window !== inFlightWindow);
    const { alone: _, entries, ...rest } = this.#record(minutes, nowMs, false);
    return {
      ...rest,
      ended: [[this.#process, Number.MAX_SAFE_INTEGER], ...rest.ended],
      // A claim on a minute outlives the process, so reduce it to the amount used. Omitted claims end with their minute.
      entries: entries.slice(0, gaugeEntriesMax).map((entry) => ({ ...entry, claim: entry.used })),
    };
  }

  #mayBeAlone(nowMs: number): boolean {
    return (
      this.#fold.alone === undefined && this.#fold.live === 1 && this.#readN > 0 && !this.isCutOff(nowMs)
    );
  }

  /**
   * Takes a new process id. Requests in flight move to the new id. Use in a minute stays with the previous id, up to the
   * amount that others reserve for that id. The previous id's final record gives up the rest.
   */
  #renew(): void {
    const entries: GaugeEntry[] = [];
    for (const own of this.#own.values()) {
      const { subject, window, limit } = own;
      const used = window === inFlightWindow ? 0 : Math.min(own.used, this.#share.reserved(own));
      own.renew(used);
      if (used > 0) entries.push({ subject, window, limit, used, claim: used });
    }
    const at = Math.max(0, Math.round(this.#tickMs + this.#wallAheadMs));
    this.#farewells.add({ process: this.#process, name: this.#options.name, n: this.#n, at }, entries);
    this.#process = this.#options.mint();
    this.#n = 0;
    this.#readN = 0;
    this.#share = new StandingShare(this.#fold, this.#process);
    this.#yieldedN = 0;
    this.#readSentMs = Number.NEGATIVE_INFINITY;
    this.#sentMs.clear();
  }

  #stateOf(own: OwnLimit, row: LimitRow | undefined, isAlone: boolean): OwnState {
    const left = this.#fold.left(this.#process, own, row);
    const isContended = row !== undefined && this.#fold.rows.lacksElsewhere(row, this.#process);
    return { readN: this.#readN, isAlone, left, share: this.#share.of(own, row), isContended };
  }

  #dueOf(own: OwnLimit, nowMs: number) {
    const row = this.#fold.row(own);
    const state = this.#stateOf(own, row, this.isAlone && this.#fold.live === 1);
    return own.due(row, row?.cells.get(this.#process), state, nowMs);
  }

  #ownOf(limit: Limit): OwnLimit {
    const key = limitKey(limit);
    let own = this.#own.get(key);
    if (own === undefined) {
      own = new OwnLimit(limit);
      this.#own.set(key, own);
    }
    own.limit = limit.limit;
    return own;
  }
}
