/** What one transaction takes of the log of rows: their numbers, what they add to the counters, and where numbers begin. */

import type { OutboxFile, RowPlace, TakenPlace } from './outbox-file.ts';
import { type ReadRows, readUsage, Sums, textsIn } from './rows.ts';
import type { ReadSegmentGroup } from './segment-reader.ts';
import { headingIn } from './usage-log.ts';

export class Taking {
  taken: TakenPlace;
  records = 0;
  /** What is counted, and what is counted or refused. */
  readonly counted = new Sums();
  readonly settled = new Sums();
  readonly marks: RowPlace[] = [];
  readonly faults: string[] = [];
  /** The rows, in parts that have no gap and no mark within. */
  readonly parts: ReadRows[] = [];
  /** Of which segment, and of which replica, the last mark is. */
  marked: string;
  readonly #file: OutboxFile;

  constructor(file: OutboxFile, marked: string) {
    this.#file = file;
    this.taken = file.taken;
    this.marked = marked;
  }

  /** Is it of this database? */
  isOwn({ heading }: ReadSegmentGroup): boolean {
    return headingIn(heading)?.database === this.#file.id;
  }

  /** A group that is not of this database, or cannot be read, is passed. */
  add({ position, count, text, heading, segment }: ReadSegmentGroup): void {
    const { database, incarnation = '' } = headingIn(heading) ?? {};
    const end = position + count;
    this.records += count;
    if (database !== this.#file.id) {
      this.taken = { ...this.taken, taken: end };
      this.faults.push('a group of rows is not of this database and not billed');
      return;
    }
    const isSame = incarnation === this.taken.incarnation;
    let nextN = isSame ? this.taken.nextN : 1;
    const { replica } = this.#file.ledger;
    const from = Math.max(position, this.taken.taken);
    const mark = `${segment} ${replica}`;
    // Behind a gap numbers continue, but positions do not.
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

  /** The row; undefined where it uses no number. */
  #count(text: string): string | undefined {
    const { entries, row, fault } = readUsage(text);
    this.settled.add(entries);
    if (fault === undefined) this.counted.add(entries);
    else this.faults.push(fault);
    return row;
  }
}
