/**
 * The last records of ids that a process had before. Each says all that the id used of its minutes, so nobody keeps the rest of
 * its standing shares, and is repeated until the log knows that the id ended.
 */
import {
  type GaugeEntry,
  type GaugeRecord,
  gaugeEntriesMax,
  type LastSeen,
} from '../../schemas/records/gauges.ts';
import type { ClaimsFold } from '../../shared/limits/claims-fold.ts';

/** More ids than this have ended in a row only while the log was away, and others end those. */
const idsMax = 4;

export class Farewells {
  #records: GaugeRecord[] = [];

  /** `n`: of the last record of the id. The log ends it at most once. */
  add(
    { process, name, n, at }: Pick<GaugeRecord, 'process' | 'name' | 'n' | 'at'>,
    used: readonly GaugeEntry[],
  ) {
    const ended: LastSeen[] = [[process, Number.MAX_SAFE_INTEGER]];
    const head = { process, name, n, at, ended, silent: [] };
    this.#records.push({ ...head, entries: used.slice(0, gaugeEntriesMax) });
  }

  /** Those that the log does not know yet, each time with another number. */
  repeat(fold: ClaimsFold): GaugeRecord[] {
    this.#records = this.#records
      .filter(({ process }) => !fold.hasEnded(process))
      .slice(-idsMax)
      .map((last) => ({ ...last, n: last.n + 1 }));
    return [...this.#records];
  }
}
