/** Counts of a traffic report in one block of memory: a row of cells for each name, and row 0 for what has no row of its own. */
import { firstTokenBounds, ownTimeBounds, type TrafficSums } from '../../schemas/traffic.ts';
import type { RequestRecord } from '../request/gateway.ts';

const cells = { requests: 0, endedEarly: 1, promptTokens: 2, completionTokens: 3 } as const;
const ownTimeAt = Object.keys(cells).length;
const firstTokenAt = ownTimeAt + ownTimeBounds.length + 1;
const cellsOfRow = firstTokenAt + firstTokenBounds.length + 1;

export class TrafficCells {
  readonly #cells: Float64Array;

  constructor(rowsMax: number) {
    this.#cells = new Float64Array((rowsMax + 1) * cellsOfRow);
  }

  /** A request of which no more is known. */
  addRequest(row: number): void {
    this.#count(row * cellsOfRow + cells.requests, 1);
  }

  /** A request that has ended. Allocates nothing. */
  add(row: number, { outcome, at, startMs, stream }: RequestRecord): void {
    const start = row * cellsOfRow;
    this.addRequest(row);
    if (outcome?.kind === 'ended-early') this.#count(start + cells.endedEarly, 1);
    else if (outcome !== undefined) {
      this.#count(start + cells.promptTokens, outcome.usage.promptTokens);
      this.#count(start + cells.completionTokens, outcome.usage.completionTokens);
    }
    if (at.accepted !== undefined && at.read !== undefined && at.sent !== undefined)
      this.#observe(
        start + ownTimeAt,
        ownTimeBounds,
        ((at.accepted - startMs + (at.sent - at.read)) * 10) | 0,
      );
    if (stream === true && at.begun !== undefined)
      this.#observe(start + firstTokenAt, firstTokenBounds, ((at.begun - startMs) * 10) | 0);
  }

  read(row: number): TrafficSums {
    const ofRow = this.#cells.subarray(row * cellsOfRow, (row + 1) * cellsOfRow);
    const cell = (name: keyof typeof cells): number => ofRow[cells[name]] as number;
    const [endedEarly, promptTokens] = [cell('endedEarly'), cell('promptTokens')];
    const completionTokens = cell('completionTokens');
    const ownTime = histogramOf(ofRow.subarray(ownTimeAt, firstTokenAt));
    const firstToken = histogramOf(ofRow.subarray(firstTokenAt));
    return {
      requests: cell('requests'),
      ...(endedEarly > 0 && { endedEarly }),
      ...(promptTokens > 0 && { promptTokens }),
      ...(completionTokens > 0 && { completionTokens }),
      ...(ownTime.length > 0 && { ownTime }),
      ...(firstToken.length > 0 && { firstToken }),
    };
  }

  /** The first rows, so many of them. */
  clear(rows: number): void {
    this.#cells.fill(0, 0, rows * cellsOfRow);
  }

  #count(cell: number, more: number): void {
    this.#cells[cell] = (this.#cells[cell] as number) + more;
  }

  /** In tenths of a millisecond: each fraction that is passed on would be an object. */
  #observe(firstCell: number, bounds: readonly number[], tenths: number): void {
    let bucket = 0;
    while (bucket < bounds.length && tenths > (bounds[bucket] as number) * 10) bucket++;
    this.#count(firstCell + bucket, 1);
  }
}

/** Without its last buckets, where they are empty. */
function histogramOf(counts: Float64Array): number[] {
  const last = counts.findLastIndex((requests) => requests > 0);
  return [...counts.subarray(0, last + 1)];
}
