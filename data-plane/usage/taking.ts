/** Rows from the row log that one transaction counts, with their numbers and their sums for the counters. */

import type { OutboxFile, RowPlace, TakenPlace } from './outbox-file.ts';
import { type ReadRows, readUsage, Sums, textsIn } from './rows.ts';
import type { ReadSegmentGroup } from './segment-reader.ts';
import { headingIn } from './usage-log.ts';

export class RowBatch {
  taken: TakenPlace;
  records = 0;
  /** Sums of the counted rows. `settled` also includes the rows that were refused. */
  readonly counted = new Sums();
  readonly settled = new Sums();
  readonly marks: RowPlace[] = [];
  readonly faults: string[] = [];
  /** Rows in parts. Within a part, no position is missing, and the numbering does not begin anew. */
  readonly parts: ReadRows[] = [];
  /** Segment and replica id for which the current numbering began. */
  marked: string;
  readonly #file: OutboxFile;

  constructor(file: OutboxFile, marked: string) {
    this.#file = file;
    this.taken = file.taken;
    this.marked = marked;
  }

  /** Whether a group in the row log was written for this database. */
  isOwn({ heading }: ReadSegmentGroup): boolean {
    return headingIn(heading)?.database === this.#file.id;
  }

  /** Adds a group. Skips its rows if it was written for another database or its heading is unreadable. */
  add({ position, count, text, heading, segment }: ReadSegmentGroup): void {
    const { database, incarnation = '' } = headingIn(heading) ?? {};
    const end = position + count;
    this.records += count;
    if (database !== this.#file.id) {
      this.taken = { ...this.taken, taken: end };
      this.faults.push('a group of rows belongs to another database and is not billed');
      return;
    }
    const isSame = incarnation === this.taken.incarnation;
    let nextN = isSame ? this.taken.nextN : 1;
    const { replica } = this.#file.ledger;
    const from = Math.max(position, this.taken.taken);
    const mark = `${segment} ${replica}`;
    // A gap in the positions needs a mark, too, because row numbers have no gap in that place.
    const isMarked = mark !== this.marked || from > this.taken.taken;
    if (isMarked) this.marks.push({ position: from, incarnation, n: nextN, replica });
    this.marked = mark;
    const rows = textsIn(text)
      .slice(from - position)
      .map((row) => this.#count(row));
    for (const row of rows) if (row !== undefined) nextN++;
    const part = isMarked ? undefined : this.parts.at(-1);
    if (part === undefined) this.parts.push({ position: from, rows });
    else part.rows.push(...rows);
    this.taken = { taken: end, incarnation, nextN };
  }

  /** Adds a row to the sums. Returns the row as JSON, or undefined if the text gets no number. */
  #count(text: string): string | undefined {
    const { entries, row, fault } = readUsage(text);
    this.settled.add(entries);
    if (fault === undefined) this.counted.add(entries);
    else this.faults.push(fault);
    return row;
  }
}
