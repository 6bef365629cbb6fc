/**
 * Limits how often each name may act within any minute. Refused calls are not counted, so the limits also bound memory use.
 */
const minuteMs = 60_000;

export class MinuteLimit {
  readonly #now: () => number;
  /** Times in ms of each name's actions in the last minute. The name that was counted longest ago comes first. */
  readonly #times = new Map<string, number[]>();

  /** `now` returns a monotonic time in ms. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Counts one action for each name. If a name has reached its limit, counts nothing and returns the seconds to wait. */
  tryAcquire(bounds: Readonly<Record<string, number>>): number | undefined {
    const nowMs = this.#now();
    this.#forget(nowMs);
    for (const [name, max] of Object.entries(bounds)) {
      const times = this.#times.get(name) ?? [];
      const recent = times.findIndex((atMs) => atMs > nowMs - minuteMs);
      times.splice(0, recent < 0 ? times.length : recent);
      const frees = times[times.length - max];
      if (frees !== undefined) return Math.ceil((frees + minuteMs - nowMs) / 1000);
    }
    for (const name of Object.keys(bounds)) {
      const times = this.#times.get(name) ?? [];
      times.push(nowMs);
      this.#times.delete(name);
      this.#times.set(name, times);
    }
    return undefined;
  }

  #forget(nowMs: number): void {
    for (const [name, times] of this.#times) {
      if ((times.at(-1) ?? 0) > nowMs - minuteMs) return;
      this.#times.delete(name);
    }
  }
}
