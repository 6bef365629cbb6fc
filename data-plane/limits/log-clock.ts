/**
 * The clock by which a gateway labels minutes: its own, unless that differs from the log's, which all gateways share. Periods
 * follow `ReadTime` instead, because a leap of the log must not change a period.
 * Pure: `nowMs` is monotonic, `ownMs` is this process's wall clock, ms since 1970.
 */

import { clockOffMs } from '../../shared/limits/claims-fold.ts';
import { BoundedMap } from '../../shared/runtime/bounded-map.ts';

/** Records whose sending is remembered: more are not read back while the log is away. */
const sentMax = 1000;

export class LogClock {
  /** When each record that was not read back yet was sent, by this process's clock. */
  readonly #sentMs = new BoundedMap<string, number>(sentMax, 'all');
  #aheadMs = 0;
  /** Of the wall clock before the monotonic one. */
  #wallAheadMs: number | undefined;

  /** How far the log's clock is ahead of this process's; 0 where they agree well enough to label minutes. */
  aheadMs(nowMs: number, ownMs: number): number {
    const wallAheadMs = ownMs - nowMs;
    const movedMs = wallAheadMs - (this.#wallAheadMs ?? wallAheadMs);
    // The own clock was set: time continues as before until the log says what is right.
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

  /** The log gave an own record that time. Where the clock was set since it was sent, a later record decides. */
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
