/** When each key was last used, and how often in a day: read from the rows of completed requests, each row once. */
import { hourMs } from '../../schemas/durations.ts';
import type { UsageRow } from '../../schemas/usage.ts';
import type { UsageReader } from '../../shared/usage/usage-store.ts';

const hoursKept = 24;
const rowsPerRead = 500;

interface Use {
  readonly organisation: string;
  lastMs: number;
  /** Requests by hour since 1970, of the last hours alone. */
  readonly hours: Map<number, number>;
}

export interface KeyUse {
  readonly key: string;
  readonly lastUsedAt: string;
  /** In the present hour and the 23 before it. */
  readonly requestsOfDay: number;
}

const known = new WeakMap<UsageReader, KeyActivity>();

/** One for all listeners of a replica. */
export function keyActivityOf(usage: UsageReader): KeyActivity {
  const found = known.get(usage) ?? new KeyActivity(usage);
  known.set(usage, found);
  return found;
}

class KeyActivity {
  readonly #usage: UsageReader;
  readonly #uses = new Map<string, Use>();
  #afterId = 0;
  #reading: Promise<void> | undefined;

  constructor(usage: UsageReader) {
    this.#usage = usage;
  }

  async of(organisation: string | undefined, nowMs: number): Promise<KeyUse[]> {
    this.#reading ??= this.#read(nowMs).finally(() => {
      this.#reading = undefined;
    });
    await this.#reading;
    const uses = [...this.#uses].filter(
      ([, use]) => organisation === undefined || use.organisation === organisation,
    );
    return uses.map(([key, { lastMs, hours }]) => {
      const day = [...hours].filter(([hour]) => isOfDay(hour, nowMs));
      const requestsOfDay = day.reduce((sum, [, requests]) => sum + requests, 0);
      return { key, lastUsedAt: new Date(lastMs).toISOString(), requestsOfDay };
    });
  }

  /** In slices, so that the first reading of a long history does not block the event loop. */
  async #read(nowMs: number): Promise<void> {
    for (;;) {
      const read = this.#usage.requests({ afterId: this.#afterId, limit: rowsPerRead });
      for (const { row } of read) this.#add(row, nowMs);
      this.#afterId = read.at(-1)?.id ?? this.#afterId;
      if (read.length < rowsPerRead) return;
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  #add({ key, organisation, at }: UsageRow, nowMs: number): void {
    if (key === undefined || organisation === null) return;
    const atMs = Date.parse(at);
    const use = this.#uses.get(key) ?? { organisation, lastMs: 0, hours: new Map<number, number>() };
    this.#uses.set(key, use);
    use.lastMs = Math.max(use.lastMs, atMs);
    const hour = Math.floor(atMs / hourMs);
    if (!isOfDay(hour, nowMs)) return;
    if (!use.hours.has(hour))
      for (const old of use.hours.keys()) if (!isOfDay(old, nowMs)) use.hours.delete(old);
    use.hours.set(hour, (use.hours.get(hour) ?? 0) + 1);
  }
}

function isOfDay(hour: number, nowMs: number): boolean {
  return hour > Math.floor(nowMs / hourMs) - hoursKept;
}
