/**
 * One limit of one subject as this process uses it: what it admitted, what waits, and what it last asked the log for.
 * Pure: times are passed in, monotonic ms.
 */
import { type GaugeEntry, inFlightWindow } from '../../schemas/records/gauges.ts';
import type { Cell, LimitName, LimitRow } from '../../shared/limits/claims-rows.ts';

/** An entry that was not read back is published again after this. */
const repeatMs = 200;
/** What is held is repeated for readers that begin later. */
const heldMs = 30_000;
/** What is claimed and no longer wanted is given up after this, and at once where another process lacks it. */
const givenUpMs = 5000;
/** A process that refused a request this recently, in ms, needs its standing share itself. */
const lackingMs = 1000;
/** Room beyond what is used is asked for what was admitted within such a time. */
const recentMs = 1000;
/** A minute's limit is kept after its end for gateways whose clocks are behind. */
const windowKeptMs = 63_000;
/** Outstanding records whose claims are kept apart; of more, only the smallest claim is kept. */
const outstandingMax = 16;

/** What the process knows of itself when an entry is made. */
export interface OwnState {
  /** The number of its last record that it has read back. */
  readonly readN: number;
  /** It holds all room: nothing is claimed beyond what is used. */
  readonly isAlone: boolean;
  /** What the others leave of the limit, where they have claimed or reserved some; may be below 0. */
  readonly left: number;
  /** Its standing share; 0 where it is no member. */
  readonly share: number;
  /** Another process lacks what it asked for. */
  readonly isContended: boolean;
}

export function keyOf({ subject, window }: LimitName): string {
  return `${window} ${subject}`;
}

/** `with the next`: within a second, together with all else that has changed. */
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
  /** Admitted here: requests of the minute, or weight in flight. */
  used = 0;
  /** Weight of the requests that wait for room. */
  waiting = 0;
  #recent = { sinceMs: Number.NEGATIVE_INFINITY, weight: 0, before: 0 };
  /** What it may use of its standing share. Where the shares stop fitting into the limit, it does not grow. */
  level = 0;
  /** Since when no other process lacks room, as far as it was looked at. */
  #contendedMs = Number.NEGATIVE_INFINITY;
  /** When this process last refused a request because others use the room; monotonic, ms. */
  #refusedMs = Number.NEGATIVE_INFINITY;
  /** Claims of records that were not read back yet. */
  #outstanding: Sent[] = [];
  #last: LastSent = neverSent;

  constructor({ subject, window, limit }: Pick<GaugeEntry, 'subject' | 'window' | 'limit'>) {
    this.key = keyOf({ subject, window });
    this.subject = subject;
    this.window = window;
    this.limit = limit;
  }

  /** The minute is over for all gateways, or nothing is held in flight here, and the log knows it. */
  isOver(readN: number, wallMs: number): boolean {
    if (this.waiting > 0) return false;
    if (this.window !== inFlightWindow) return this.window + windowKeptMs < wallMs;
    const { n, used, claim, yields } = this.#last;
    return this.used + used + claim === 0 && !yields && n <= readN;
  }

  /** A record that gives the standing share up was sent and not read back yet. */
  get isYielding(): boolean {
    return this.#outstanding.some(({ yields }) => yields);
  }

  admitted(weight: number, nowMs: number): void {
    this.used += weight;
    this.#turn(nowMs);
    this.#recent.weight += weight;
  }

  /** Notes that this process refused a request because others use the room. */
  noteRefusal(nowMs: number): undefined {
    this.#refusedMs = nowMs;
  }

  /** The smallest claim that was sent and may still be read back. */
  smallestSent(): number {
    let smallest = Number.POSITIVE_INFINITY;
    for (const { claim } of this.#outstanding) smallest = Math.min(smallest, claim);
    return smallest;
  }

  readBack(n: number): void {
    if (this.#outstanding.length > 0) this.#outstanding = this.#outstanding.filter((sent) => sent.n > n);
  }

  /** Under another process id nothing was sent yet, and `counted` of what was used counts under the last one. */
  renew(counted: number): void {
    this.used -= counted;
    this.level = 0;
    this.#outstanding = [];
    this.#last = neverSent;
  }

  /** What is used and waits, and a part of the rest for what may come next, unless another process lacks it. */
  wanted(
    row: LimitRow | undefined,
    own: Cell | undefined,
    { isAlone, left, isContended }: OwnState,
    nowMs: number,
  ): number {
    const needed = this.used + this.waiting;
    const claim = own?.claim ?? 0;
    const excess = (row?.claimed ?? 0) - this.limit;
    // While more is claimed or reserved than the limit allows, what ends is not replaced.
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
    // Who holds something lets others have its share at once.
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

  /** Is the standing share given up? While another process lacks room, and some seconds longer. */
  yields({ share, isContended }: OwnState, nowMs: number): boolean {
    if (isContended) this.#contendedMs = nowMs;
    const isLacking = this.window === inFlightWindow && nowMs - this.#refusedMs < lackingMs;
    return share > 0 && nowMs - this.#contendedMs < givenUpMs && !isLacking;
  }

  /** Is half of what was claimed ahead used? Requests would soon have to wait; a single one says nothing. */
  #isRunningOut(): boolean {
    const grown = this.used - this.#last.used;
    return grown > 1 && 2 * grown >= this.#last.claim - this.#last.used;
  }

  /** Does a request wait here for room, or one elsewhere for what is held here? */
  #cannotWait(
    row: LimitRow | undefined,
    own: Cell | undefined,
    sent: { wanted: number; isUnread: boolean; ageMs: number; isContended: boolean },
  ): boolean {
    const { wanted, isUnread, ageMs, isContended } = sent;
    const { claim } = this.#last;
    // Room may have been given up since the claim was cut.
    if (this.waiting > 0 && (wanted > claim || (!isUnread && canGrow(row, own, this.limit)))) return true;
    // Who lacks room decides by what the others use now.
    return isContended && (wanted < claim || (claim > 0 && ageMs >= repeatMs));
  }

  /** The entry of the record with this number, which is now sent. */
  entry(n: number, claim: number, yields: boolean, nowMs: number): GaugeEntry {
    const { subject, window, limit, used } = this;
    // What is given up comes back where the shares fit again, not because it was used before.
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
