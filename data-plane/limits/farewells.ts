/**
 * Final records for ids that a process used earlier. Each record states what its id used in each minute, so that other
 * gateways stop reserving the rest of that id's shares. It is repeated until the log shows that the id has ended.
 */
import {
  type GaugeEntry,
  type GaugeRecord,
  gaugeEntriesMax,
  type LastSeen,
} from '../../schemas/records/gauges.ts';
import type { ClaimsFold } from '../../shared/limits/claims-fold.ts';

/** Maximum number of final records kept. More are needed only if the log is unreachable; then other processes end the ids. */
const idsMax = 4;

export class Farewells {
  #records: GaugeRecord[] = [];

  /** Adds the final record for a process id. `n` is the number of the last record under that id. */
  add(
    { process, name, n, at }: Pick<GaugeRecord, 'process' | 'name' | 'n' | 'at'>,
    used: readonly GaugeEntry[],
  ) {
    const ended: LastSeen[] = [[process, Number.MAX_SAFE_INTEGER]];
    const head = { process, name, n, at, ended, silent: [] };
    this.#records.push({ ...head, entries: used.slice(0, gaugeEntriesMax) });
  }

  /** Returns the final records of ids that the log does not show as ended, each with a new record number. */
  repeat(fold: ClaimsFold): GaugeRecord[] {
    this.#records = this.#records
      .filter(({ process }) => !fold.hasEnded(process))
      .slice(-idsMax)
      .map((last) => ({ ...last, n: last.n + 1 }));
    return [...this.#records];
  }
}
