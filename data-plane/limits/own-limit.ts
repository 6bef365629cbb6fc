/** This process's view of one subject's limit: weight admitted and waiting, and last claims. Times are monotonic, in ms. */
import { type GaugeEntry, inFlightWindow } from '../../schemas/records/gauges.ts';
import type { Cell, LimitName, LimitRow } from '../../shared/limits/claims-rows.ts';

/** Time after which an entry that was not read back is published again. */
const repeatMs = 200;
/** Interval at which a held amount is repeated, for readers that start later. */
const heldMs = 30_000;
/** Time after which an unneeded claim is given up. It is given up at once if another process lacks the room. */
const givenUpMs = 5000;
/** Time after refusing a request during which a process needs its standing share itself, in ms. */
const lackingMs = 1000;
/** Period whose admissions determine how much room is claimed in advance. */
const recentMs = 1000;
/** Time for which a minute's limit is kept after its end, for gateways whose clocks are behind. */
const windowKeptMs = 63_000;
/** Number of outstanding records whose claims are kept separately. Beyond it, only the smallest claim is kept. */
const outstandingMax = 16;

/** State of the process when an entry is made. */
export interface OwnState {
  /** Number of the process's last record that was read back. */
  readonly readN: number;
  /** Whether the process holds all room and so claims no more than it uses. */
  readonly isAlone: boolean;
  /** Amount of the limit that others leave, after their claims and reservations. May be negative. */
  readonly left: number;
  /** Standing share of the process. 0 if the process is not a member. */
  readonly share: number;
  /** Whether another process lacks room that it has claimed. */
  readonly isContended: boolean;
}

export function limitKey({ subject, window }: LimitName): string {
  return `${window} ${subject}`;
}

/** `with the next` means within a second, together with all other changes. */
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
  /** Weight admitted by this process: requests in the minute, or weight in flight. */
  used = 0;
  /** Weight of the requests waiting for room. */
  waiting = 0;
  #recent = { sinceMs: Number.NEGATIVE_INFINITY, weight: 0, before: 0 };
  /** Usable part of the standing share. It does not grow while the shares do not fit into the limit. */
  level = 0;
  /** Last time at which another process was seen to lack room. */
  #contendedMs = Number.NEGATIVE_INFINITY;
  /** Last time at which this process refused a request because others use the room. Monotonic, in ms. */
  #refusedMs = Number.NEGATIVE_INFINITY;
  /** Claims of records that were not read back yet. */
  #outstanding: Sent[] = [];
  #last: LastSent = neverSent;

  constructor({ subject, window, limit }: Pick<GaugeEntry, 'subject' | 'window' | 'limit'>) {
    this.key = limitKey({ subject, window });
    this.subject = subject;
    this.window = window;
    this.limit = limit;
  }

  /** Whether the minute is over for all gateways or nothing is in flight here, and the log knows it. */
  isOver(readN: number, wallMs: number): boolean {
    if (this.waiting > 0) return false;
    if (this.window !== inFlightWindow) return this.window + windowKeptMs < wallMs;
    const { n, used, claim, yields } = this.#last;
    return this.used + used + claim === 0 && !yields && n <= readN;
  }

  /** Whether a record that gives up the standing share was sent but not read back yet. */
  get isYielding(): boolean {
    return this.#outstanding.some(({ yields }) => yields);
  }

  admitted(weight: number, nowMs: number): void {
    this.used += weight;
    this.#turn(nowMs);
    this.#recent.weight += weight;
  }

  /** Records that this process refused a request because others use the room. */
  noteRefusal(nowMs: number): undefined {
    this.#refusedMs = nowMs;
  }

  /** Smallest claim that was sent and may still be read back. */
  smallestSent(): number {
    let smallest = Number.POSITIVE_INFINITY;
    for (const { claim } of this.#outstanding) smallest = Math.min(smallest, claim);
    return smallest;
  }

  readBack(n: number): void {
    if (this.#outstanding.length > 0) this.#outstanding = this.#outstanding.filter((sent) => sent.n > n);
  }

  /** Prepares for another process id. `counted` of the used weight still counts under the previous one. */
  renew(counted: number): void {
    this.used -= counted;
    this.level = 0;
    this.#outstanding = [];
    this.#last = neverSent;
  }

  /** Amount to claim: used and waiting weight and, unless another process lacks room, a part of the rest in advance. */
  wanted(
    row: LimitRow | undefined,
    own: Cell | undefined,
    { isAlone, left, isContended }: OwnState,
    nowMs: number,
  ): number {
    const needed = this.used + this.waiting;
    const claim = own?.claim ?? 0;
    const excess = (row?.claimed ?? 0) - this.limit;
    // While more is claimed or reserved than the limit allows, ended requests are not replaced.
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
    // If this process holds something, release its standing share at once.
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

  /** Whether the standing share is given up. It is while another process lacks room, and for some seconds afterwards. */
  yields({ share, isContended }: OwnState, nowMs: number): boolean {
    if (isContended) this.#contendedMs = nowMs;
    const isLacking = this.window === inFlightWindow && nowMs - this.#refusedMs < lackingMs;
    return share > 0 && nowMs - this.#contendedMs < givenUpMs && !isLacking;
  }

  /** Whether requests would soon have to wait: half of the room claimed in advance is used, by more than one request. */
  #isRunningOut(): boolean {
    const grown = this.used - this.#last.used;
    return grown > 1 && 2 * grown >= this.#last.claim - this.#last.used;
  }

  /** Whether a request is waiting here, or one elsewhere is waiting for room held here. */
  #cannotWait(
    row: LimitRow | undefined,
    own: Cell | undefined,
    sent: { wanted: number; isUnread: boolean; ageMs: number; isContended: boolean },
  ): boolean {
    const { wanted, isUnread, ageMs, isContended } = sent;
    const { claim } = this.#last;
    // Room may have been given up since the claim was cut.
    if (this.waiting > 0 && (wanted > claim || (!isUnread && canGrow(row, own, this.limit)))) return true;
    // The process that lacks room decides by the others' present use.
    return isContended && (wanted < claim || (claim > 0 && ageMs >= repeatMs));
  }

  /** Creates the entry for the record with this number, which is being sent. */
  entry(n: number, claim: number, yields: boolean, nowMs: number): GaugeEntry {
    const { subject, window, limit, used } = this;
    // A share that was given up returns only when the shares fit again, not because it was used before.
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
