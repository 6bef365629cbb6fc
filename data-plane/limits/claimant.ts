/**
 * A gateway process's side of the limit exchange. It admits requests against the claims that the log has granted, decides
 * what to claim and when to publish, and which claims of other processes have ended. It uses neither a log nor a clock:
 * `nowMs` is monotonic, `wallMs` is since 1970.
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

/** Longest time between two records. Changes are batched until then, because readers pay more per record than per entry. */
const quietMsMax = 1000;
/** Silence after which a process no longer admits against all room. Longer than `cutOffMs`. */
const silentMs = 2500;
/** Silence after which a process's requests in flight no longer count. */
const endedMs = 10_000;
/** Time without reading back an own record after which a process takes another id, before others end the present one. */
const renewMs = 8000;
/** After a pause longer than `pauseMs`, a process has `resumeMs` to read the log before it counts as cut off. */
const pauseMs = 1000;
const resumeMs = 1500;

export interface ClaimantOptions {
  readonly name: string;
  /** Creates a new process id. */
  readonly mint: () => string;
  /** Number of live gateways when the log was last read, from the disk. */
  readonly live: number;
  /** Id of the process that last used this data folder. It has certainly ended. */
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
  /** Sending time of the latest record that was read back. */
  #readSentMs = Number.NEGATIVE_INFINITY;
  readonly #sentMs = new Map<number, number>();
  #sentAtMs = Number.NEGATIVE_INFINITY;
  #share: StandingShare;
  /** Number of the last record that gave up all room. */
  #yieldedN = 0;
  #live: number;
  /** Process that last used this data folder, until the log knows that it has ended. */
  #ended: LastSeen[] = [];
  /** Final records of the ids that this process used earlier. */
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

  /** Number of live gateways when an own record was last read back. */
  get live(): number {
    return this.#live;
  }

  /** Whether this process uses, holds and claims nothing. */
  get isIdle(): boolean {
    return this.#own.size === 0;
  }

  /** Whether requests are waiting for room. */
  get isAwaited(): boolean {
    return this.#waiters.size > 0;
  }

  /** Whether a waiting request may have room now, so that `settle` should be called. */
  get mayRelease(): boolean {
    return this.#waiters.mayFit && this.isAwaited;
  }

  /** Whether a request is waiting, or another gateway lacks room that is not needed here. */
  get isUrgent(): boolean {
    return this.#isUrgent;
  }

  /** Time since an own record was last read back, in ms. */
  feedAgeMs(nowMs: number): number {
    return nowMs - this.#readSentMs;
  }

  isCutOff(nowMs: number): boolean {
    return this.feedAgeMs(nowMs) > cutOffMs;
  }

  /** Whether requests can be decided by claims, rather than by the share of a gateway that is cut off. */
  isReady(nowMs: number): boolean {
    if (this.isCutOff(nowMs)) return false;
    return this.#fold.alone === this.#process || (this.#fold.alone === undefined && this.#fold.live > 1);
  }

  /** Whether no other gateway is live, as far as the log has been read. */
  get isAlone(): boolean {
    return this.#fold.alone === this.#process && this.#yieldedN <= this.#readN;
  }

  used(limit: Limit): number {
    return this.#own.get(limitKey(limit))?.used ?? 0;
  }

  /** Weight of the requests waiting for the limit. */
  waitingFor(limit: Limit): number {
    return this.#own.get(limitKey(limit))?.waiting ?? 0;
  }

  /** Total amount of the limit that this process may use now. */
  room(limit: Limit, nowMs: number): number {
    const row = this.#fold.row(limit);
    const claim = row?.cells.get(this.#process)?.claim ?? 0;
    const isAlone = this.isAlone;
    const own = isAlone ? undefined : this.#own.get(limitKey(limit));
    const smallest = isAlone ? claim : (own?.smallestSent() ?? claim);
    const granted = Math.min(claim, smallest);
    if (this.isCutOff(nowMs)) {
      const share = Math.max(1, Math.floor(limit.limit / this.#live));
      // Grants for a minute remain valid. Grants in flight end when others consider this process ended.
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

  /** Whether the first request may precede its claim: if there are no standing shares and each gateway has room. */
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
   * Makes a request wait until `untilMs`, or longer as described at `expire`, because the log may grant its room. `done` says
   * whether to decide the request again. Returns undefined if waiting cannot help.
   */
  wait(limit: Limit, weight: number, untilMs: number, nowMs: number, done: (again: boolean) => void) {
    if (this.isAlone || (this.isCutOff(nowMs) && !this.#hasResumed(nowMs))) return undefined;
    const isLeft = this.isLeft(limit, weight + this.waitingFor(limit), nowMs);
    // Other processes give up what they hold beyond their needs.
    if (!isLeft) return this.#ownOf(limit).noteRefusal(nowMs);
    this.#isUrgent = true;
    return this.#waiters.add({ own: this.#ownOf(limit), weight, sinceMs: nowMs, untilMs, done });
  }

  cancel(waiter: Waiter): void {
    this.#waiters.remove(waiter);
  }

  /**
   * Ends waits that are over. A request whose claim is unanswered waits until this process counts as cut off and decides by
   * its share, so that a slow log never causes a refusal.
   */
  expire(nowMs: number): void {
    this.#notePause(nowMs);
    const answeredMs = this.isCutOff(nowMs) ? Number.POSITIVE_INFINITY : this.#readSentMs;
    this.#waiters.expire(({ sinceMs, untilMs }) => untilMs <= nowMs && sinceMs < answeredMs);
  }

  /** Detects a pause of this process. Only suspension delays this call as much; a slow log does not. */
  #notePause(nowMs: number): void {
    if (nowMs - this.#tickMs > pauseMs) this.#resumedMs = nowMs;
    this.#tickMs = nowMs;
  }

  /** Whether this process was suspended until a moment ago, so that it is about to read what the log contains meanwhile. */
  #hasResumed(nowMs: number): boolean {
    return nowMs - this.#tickMs > pauseMs || nowMs - this.#resumedMs <= resumeMs;
  }

  /** Whether the limit has this much left after the use here and what others keep, as far as the log has been read. */
  isLeft(limit: Limit, weight: number, nowMs: number): boolean {
    return this.used(limit) + weight <= limit.limit - this.#fold.keptByOthers(this.#process, limit, nowMs);
  }

  /** Folds a record, logged at `loggedMs` (since 1970) if known. Returns false if the record changes nothing. */
  onRecord(record: GaugeRecord, offset: number, nowMs: number, loggedMs?: number): boolean {
    const { epoch } = this.#fold;
    if (!this.#fold.apply(record, offset, nowMs, loggedMs)) return false;
    // Recompute all levels now: a share that has shrunk must not grow back while the shares do not fit.
    if (this.#fold.epoch !== epoch)
      for (const own of this.#own.values()) this.#share.level(own, this.#fold.row(own), own);
    if (record.process === this.#process) this.#readBack(record.n, nowMs);
    else this.#onOther(record.entries, nowMs);
    return true;
  }

  /** Called if the log was replaced or has lost its end. All gateways start again, and the use here is published again. */
  restart(): void {
    this.#fold = new ClaimsFold();
    // The new log knows nothing of this process, so everything used counts under its next id.
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
    // Another process is live, so use without a claim must be published at once.
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

  /** Creates an entry for a limit of which another process lacks room, so that this process gives up its standing share. */
  #lacking(entry: GaugeEntry): OwnLimit | undefined {
    const row = this.#fold.row(entry);
    if (row === undefined || row.short === 0 || this.#share.of(entry, row) === 0) return undefined;
    return this.#ownOf(entry);
  }

  /**
   * Releases waiting requests that now fit, or no longer can. Call it only after previously released requests have taken
   * their room; otherwise the same room is given twice, and one of them is refused.
   */
  settle(nowMs: number): void {
    this.#waiters.settle((own, ahead, weight) => {
      if (own.used + ahead + weight <= this.room(own, nowMs)) return 'fits';
      const left = own.limit - this.#fold.keptByOthers(this.#process, own, nowMs);
      return own.used + weight > left ? 'never' : 'waits';
    });
  }

  /** Records to publish now. With `urgent`, between two ticks, only what cannot wait. */
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

  /** Entries of the next record, and whether none of them is a reason to send one. */
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

  /** Last record of a process that stops cleanly. Its use in the minute still counts. */
  goodbye(nowMs: number): GaugeRecord {
    // If the process held all room, this gives the room up.
    const minutes = [...this.#own.values()].filter(({ window }) => window !== inFlightWindow);
    const { alone: _, entries, ...rest } = this.#record(minutes, nowMs, false);
    return {
      ...rest,
      ended: [[this.#process, Number.MAX_SAFE_INTEGER], ...rest.ended],
      // Claims for a minute outlive the process, so reduce them to the use. Entries beyond one record end with their minute.
      entries: entries.slice(0, gaugeEntriesMax).map((entry) => ({ ...entry, claim: entry.used })),
    };
  }

  #mayBeAlone(nowMs: number): boolean {
    return (
      this.#fold.alone === undefined && this.#fold.live === 1 && this.#readN > 0 && !this.isCutOff(nowMs)
    );
  }

  /**
   * Takes another id. Requests in flight move to it. Use in a minute stays with the previous id, as far as others reserve
   * room for it, and its last record gives up the rest.
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
