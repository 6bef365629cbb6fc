/**
 * Final records of ids that a process used earlier: everything that each id used of its minutes, so that others stop
 * reserving the rest of its standing shares. Each is repeated until the log knows that the id has ended.
 */
import {
  type GaugeEntry,
  type GaugeRecord,
  gaugeEntriesMax,
  type LastSeen,
} from '../../schemas/records/gauges.ts';
import type { ClaimsFold } from '../../shared/limits/claims-fold.ts';

/** Maximum number of former ids. More can end in a row only without the log, and then other processes end them. */
const idsMax = 4;

export class Farewells {
  #records: GaugeRecord[] = [];

  /** Adds the final record of an id. `n` is the number of the id's last record. The log ends an id at most once. */
  add(
    { process, name, n, at }: Pick<GaugeRecord, 'process' | 'name' | 'n' | 'at'>,
    used: readonly GaugeEntry[],
  ) {
    const ended: LastSeen[] = [[process, Number.MAX_SAFE_INTEGER]];
    const head = { process, name, n, at, ended, silent: [] };
    this.#records.push({ ...head, entries: used.slice(0, gaugeEntriesMax) });
  }

  /** Records that the log does not know yet, each with a new number. */
  repeat(fold: ClaimsFold): GaugeRecord[] {
    this.#records = this.#records
      .filter(({ process }) => !fold.hasEnded(process))
      .slice(-idsMax)
      .map((last) => ({ ...last, n: last.n + 1 }));
    return [...this.#records];
  }
}
