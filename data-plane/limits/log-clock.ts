/**
 * Clock by which a gateway labels minutes: its own, unless that differs from the log's clock, which all gateways share.
 * Periods follow `ReadTime` instead, because a leap of the log must not change a period. The class is pure: `nowMs` is
 * monotonic, `ownMs` is the wall clock.
 */

import { clockOffMs } from '../../shared/limits/claims-fold.ts';
import { BoundedMap } from '../../shared/runtime/bounded-map.ts';

/** Maximum number of records whose sending times are remembered. More remain unread only while the log is unreachable. */
const sentMax = 1000;

export class LogClock {
  /** Sending times of records that were not read back yet, by this process's clock. */
  readonly #sentMs = new BoundedMap<string, number>(sentMax, 'all');
  #aheadMs = 0;
  /** Wall clock minus monotonic clock, in ms. */
  #wallAheadMs: number | undefined;

  /** Lead of the log's clock over this process's clock in ms. 0 if they agree well enough to label minutes. */
  aheadMs(nowMs: number, ownMs: number): number {
    const wallAheadMs = ownMs - nowMs;
    const movedMs = wallAheadMs - (this.#wallAheadMs ?? wallAheadMs);
    // The own clock was set. Continue as before until the log shows the right time.
    if (Math.abs(movedMs) > clockOffMs) {
      this.#aheadMs -= movedMs;
      this.#sentMs.clear();
    }
    this.#wallAheadMs = wallAheadMs;
    return this.#aheadMs;
  }

  wallMs(nowMs: number, ownMs: number): number {
    return ownMs + this.aheadMs(nowMs, ownMs);
  }

  sent(process: string, n: number, ownMs: number): void {
    this.#sentMs.set(`${process} ${n}`, ownMs);
  }

  /** Takes the log's time of an own record. If the clock was set after the record was sent, a later record decides. */
  readBack(process: string, n: number, loggedMs: number | undefined): void {
    const key = `${process} ${n}`;
    const sentMs = this.#sentMs.get(key);
    if (sentMs === undefined) return;
    for (const each of this.#sentMs.keys()) {
      this.#sentMs.delete(each);
      if (each === key) break;
    }
    if (loggedMs === undefined) return;
    const aheadMs = Math.round(loggedMs - sentMs);
    this.#aheadMs = Math.abs(aheadMs) > clockOffMs ? aheadMs : 0;
  }
}
