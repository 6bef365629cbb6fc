/**
 * One process's view of one limit: the weight admitted, the weight waiting, and the claims sent last. Times are monotonic, in
 * ms.
 */
import { type GaugeEntry, inFlightWindow } from '../../schemas/records/gauges.ts';
import type { Cell, LimitName, LimitRow } from '../../shared/limits/claims-rows.ts';

/** Time in ms after which an entry about this limit is published again if it has not been read back. */
const repeatMs = 200;
/** Interval in ms at which an unchanged entry is published again, for gateways that start to read the log later. */
const heldMs = 30_000;
/** Time in ms after which an unneeded claim is given up. If another process lacks room, the claim is given up at once. */
const givenUpMs = 5000;
/** Time in ms for which a process that refused a request keeps its standing share, even if another process lacks room. */
const lackingMs = 1000;
/** Period in ms whose admissions determine how much room is claimed in advance. */
const recentMs = 1000;
/** Time in ms for which the limit of a minute is kept after the minute began, in case other gateways' clocks are behind. */
const windowKeptMs = 63_000;
/** Maximum number of unread records whose claims are kept separately. If there are more, only their smallest is kept. */
const outstandingMax = 16;

/** State of the process when it creates an entry about this limit. */
export interface OwnState {
  /** Number of the last record that this process sent and has read back. */
  readonly readN: number;
  /** Whether the process holds all the room in the limits, and therefore claims no more than it uses. */
  readonly isAlone: boolean;
  /** Amount of the limit that other processes leave after their claims and reservations. May be negative. */
  readonly left: number;
  /** Standing share of the process, or 0 if the process is not a member. */
  readonly share: number;
  /** Whether another process lacks room for this limit. */
  readonly isContended: boolean;
}

export function limitKey({ subject, window }: LimitName): string {
  return `${window} ${subject}`;
}

/** When an entry on a limit must be published. `with the next` means in the next record, at most a second later. */
export type Due = 'no' | 'with the next' | 'at the tick' | 'now';

interface Sent {
  readonly n: number;
  readonly claim: number;
  readonly yields: boolean;
}

type LastSent = Sent & { readonly used: number; readonly atMs: number };

const neverSent: LastSent = {
  ...{ n: 0, used: 0, claim: 0, yields: false },
  atMs: Number.NEGATIVE_INFINITY,
};

export class OwnLimit {
  readonly key: string;
  readonly subject: string;
  readonly window: number;
  limit: number;
  /** Weight that this process has admitted: requests in one minute, or weight in flight. */
  used = 0;
  /** Weight of the requests waiting for room. */
  waiting = 0;
  #recent = { sinceMs: Number.NEGATIVE_INFINITY, weight: 0, before: 0 };
  /** Part of the standing share that may be used now. Must not grow while all shares together exceed the limit. */
  level = 0;
  /** Time at which another process was last seen to lack room, in monotonic ms. */
  #contendedMs = Number.NEGATIVE_INFINITY;
  /** Time at which this process last refused a request because others use the room, in monotonic ms. */
  #refusedMs = Number.NEGATIVE_INFINITY;
  #outstanding: Sent[] = [];
  #last: LastSent = neverSent;

  constructor({ subject, window, limit }: Pick<GaugeEntry, 'subject' | 'window' | 'limit'>) {
    this.key = limitKey({ subject, window });
    this.subject = subject;
    this.window = window;
    this.limit = limit;
  }

  /** Whether to drop this limit: its minute is over on all clocks, or the log shows that nothing is in flight. */
  isOver(readN: number, wallMs: number): boolean {
    if (this.waiting > 0) return false;
    if (this.window !== inFlightWindow) return this.window + windowKeptMs < wallMs;
    const { n, used, claim, yields } = this.#last;
    return this.used + used + claim === 0 && !yields && n <= readN;
  }

  /** Whether a record that gives up the standing share has been sent but not read back yet. */
  get isYielding(): boolean {
    return this.#outstanding.some(({ yields }) => yields);
  }

  admitted(weight: number, nowMs: number): void {
    this.used += weight;
    this.#turn(nowMs);
    this.#recent.weight += weight;
  }

  /** Remembers that this process refused a request because others use the room. */
  noteRefusal(nowMs: number): undefined {
    this.#refusedMs = nowMs;
  }

  /** Smallest claim among the records that were sent but not read back yet, or infinity if there are none. */
  smallestSent(): number {
    let smallest = Number.POSITIVE_INFINITY;
    for (const { claim } of this.#outstanding) smallest = Math.min(smallest, claim);
    return smallest;
  }

  readBack(n: number): void {
    if (this.#outstanding.length > 0) this.#outstanding = this.#outstanding.filter((sent) => sent.n > n);
  }

  /** Prepares for a new process id. The previous id keeps `counted` of the used weight. */
  renew(counted: number): void {
    this.used -= counted;
    this.level = 0;
    this.#outstanding = [];
    this.#last = neverSent;
  }

  /** Amount to claim: the weight used and waiting, plus some free room in advance unless another process lacks room. */
  wanted(
    row: LimitRow | undefined,
    own: Cell | undefined,
    { isAlone, left, isContended }: OwnState,
    nowMs: number,
  ): number {
    const needed = this.used + this.waiting;
    const claim = own?.claim ?? 0;
    const excess = (row?.claimed ?? 0) - this.limit;
    // If claims and reservations together exceed the limit, room of ended requests is given back instead of used again.
    const most = this.window === inFlightWindow ? left : claim - excess;
    if (most < claim && !isAlone) return Math.max(this.used, Math.min(needed, most));
    if (isAlone || isContended) return needed;
    this.#turn(nowMs);
    const rest = Math.max(0, left - this.used);
    return needed + Math.min(this.#recent.weight + this.#recent.before, Math.floor(rest / 4));
  }

  due(row: LimitRow | undefined, own: Cell | undefined, state: OwnState, nowMs: number): Due {
    const wanted = this.wanted(row, own, state, nowMs);
    const { n, claim, atMs, yields } = this.#last;
    const isUnread = n > state.readN;
    const ageMs = nowMs - atMs;
    if (this.#cannotWait(row, own, { wanted, isUnread, ageMs, isContended: state.isContended })) return 'now';
    const gives = this.yields(state, nowMs);
    // Do not wait for the next tick if this process holds some of the limit.
    if (gives && !yields) return this.used + claim > 0 ? 'now' : 'at the tick';
    if (isUnread) return ageMs >= repeatMs ? 'at the tick' : 'no';
    const isChanged = this.#isChanged(wanted, gives, ageMs);
    if (isChanged) return state.isAlone || this.#isRunningOut() ? 'at the tick' : 'with the next';
    return (wanted + claim > 0 || yields) && ageMs >= heldMs ? 'with the next' : 'no';
  }

  #isChanged(wanted: number, gives: boolean, ageMs: number): boolean {
    const { used, claim, yields } = this.#last;
    return this.used !== used || wanted > claim || (wanted < claim && ageMs >= givenUpMs) || gives !== yields;
  }

  /** Whether to give up the standing share, because another process lacks room (or just did) and this one does not. */
  yields({ share, isContended }: OwnState, nowMs: number): boolean {
    if (isContended) this.#contendedMs = nowMs;
    const isLacking = this.window === inFlightWindow && nowMs - this.#refusedMs < lackingMs;
    return share > 0 && nowMs - this.#contendedMs < givenUpMs && !isLacking;
  }

  /** Whether requests would soon have to wait, because several have taken half of the room claimed in advance. */
  #isRunningOut(): boolean {
    const grown = this.used - this.#last.used;
    return grown > 1 && 2 * grown >= this.#last.claim - this.#last.used;
  }

  /** Whether to publish now, because a request waits here, or one of another process waits for room held here. */
  #cannotWait(
    row: LimitRow | undefined,
    own: Cell | undefined,
    sent: { wanted: number; isUnread: boolean; ageMs: number; isContended: boolean },
  ): boolean {
    const { wanted, isUnread, ageMs, isContended } = sent;
    const { claim } = this.#last;
    // Claim again, because other processes may have given up room since the log granted less than was claimed.
    if (this.waiting > 0 && (wanted > claim || (!isUnread && canGrow(row, own, this.limit)))) return true;
    // The other process must know how much is used here now, so that it can decide its waiting requests.
    return isContended && (wanted < claim || (claim > 0 && ageMs >= repeatMs));
  }

  /** Creates the entry for record number `n`, which is about to be sent. */
  entry(n: number, claim: number, yields: boolean, nowMs: number): GaugeEntry {
    const { subject, window, limit, used } = this;
    // Once given up, the share can be used again only when the shares of all processes fit into the limit.
    if (yields) this.level = 0;
    this.#last = { n, used, claim, yields, atMs: nowMs };
    this.#outstanding.push({ n, claim, yields });
    if (this.#outstanding.length > outstandingMax) {
      const claims = this.#outstanding.map((sent) => sent.claim);
      this.#outstanding = [{ n, claim: Math.min(...claims), yields: this.isYielding }];
    }
    return { subject, window, limit, used, claim, yields };
  }

  #turn(nowMs: number): void {
    const age = nowMs - this.#recent.sinceMs;
    if (age < recentMs / 2) return;
    this.#recent = { sinceMs: nowMs, weight: 0, before: age < recentMs ? this.#recent.weight : 0 };
  }
}

function canGrow(row: LimitRow | undefined, own: Cell | undefined, limit: number): boolean {
  return own !== undefined && own.asked > own.claim && row !== undefined && row.claimed < limit;
}
