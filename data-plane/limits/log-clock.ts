/**
 * Clock that assigns a gateway's requests to minutes. It is the gateway's own clock, unless that differs too much from the
 * log's clock, which all gateways share. Periods of tokens and turns follow `ReadTime` instead, because a leap of the log's
 * clock must not change a period. The class reads no clock itself: `nowMs` is monotonic, `ownMs` is the wall clock.
 */

import { clockOffMs } from '../../shared/limits/claims-fold.ts';
import { BoundedMap } from '../../shared/runtime/bounded-map.ts';

/** Maximum number of send times kept. More records are waiting to be read back only while the log is unreachable. */
const sentMax = 1000;

export class LogClock {
  /** Sending times, by this process's clock, of records that have not been read back yet. */
  readonly #sentMs = new BoundedMap<string, number>(sentMax, 'all');
  #aheadMs = 0;
  /** Wall clock minus monotonic clock, in ms. */
  #wallAheadMs: number | undefined;

  /** Lead in ms of the log's clock over this process's clock. 0 if they agree well enough to assign requests to minutes. */
  aheadMs(nowMs: number, ownMs: number): number {
    const wallAheadMs = ownMs - nowMs;
    const movedMs = wallAheadMs - (this.#wallAheadMs ?? wallAheadMs);
    // This process's wall clock was set, so correct the lead by as much until the next record shows the log's time.
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

  /** Records the time at which the log stored this process's record. Ignores records sent before the clock was changed. */
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
