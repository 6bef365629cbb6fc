/** Reads the rows that must be shipped to the usage log, oldest first, and numbers them. */
import { usageRecordRowsMax } from '../../schemas/records/usage.ts';
import type { OutboxFile, RowPlace } from './outbox-file.ts';
import { type ReadRows, readUsage, textsIn } from './rows.ts';
import type { ReadSegmentGroup, SegmentReader } from './segment-reader.ts';
import { headingIn } from './usage-log.ts';

/** Maximum number of counted rows kept in memory until they are shipped. Any others are read from the row log again. */
const keptRowsMax = 4_000;

/** Consecutive rows of one incarnation, which become one record on the usage log. */
export interface Shipment {
  readonly incarnation: string;
  readonly bodies: readonly string[];
  /** Place of the shipment's first row in the row log, and the place after its last row. */
  readonly of: { readonly from: RowPlace; readonly to: RowPlace };
}

export class Shipper {
  /** Place in the row log before which all rows are on the usage log. */
  shipped: RowPlace;
  readonly #file: OutboxFile;
  readonly #reader: SegmentReader;
  readonly #onError: (error: unknown) => void;
  /** Counted rows that are kept in memory because they have not been shipped yet, oldest first. */
  #kept: ReadRows[] = [];
  #keptRows = 0;
  /** Group that was last read from the row log. */
  #read: ReadRows | undefined;
  /** Rows to ship again: those from `at` up to `shipped` whose number is at least `n`. */
  #again: { at: RowPlace; readonly incarnation: string; readonly n: number } | undefined;

  constructor(file: OutboxFile, reader: SegmentReader, onError: (error: unknown) => void) {
    this.#file = file;
    this.#reader = reader;
    this.#onError = onError;
    this.shipped = file.shipped;
  }

  /** Whether more rows have been shipped than the database says. */
  get isAhead(): boolean {
    return this.shipped !== this.#file.shipped;
  }

  /** Keeps counted rows in memory until they are shipped, as long as there is room. */
  keep(parts: readonly ReadRows[]): void {
    for (const part of parts) {
      if (this.#keptRows + part.rows.length > keptRowsMax) continue;
      this.#kept.push(part);
      this.#keptRows += part.rows.length;
    }
  }

  next(): Shipment | undefined {
    const again = this.#again && this.#rows(this.#again.at, this.shipped.position, this.#again);
    if (again !== undefined && again.bodies.length > 0) return again;
    this.#again = undefined;
    const shipment = this.#rows(this.shipped, this.#file.taken.taken);
    if (shipment.bodies.length > 0) return shipment;
    // Nothing can be shipped up to this place, so skip texts that are not rows or cannot be read.
    if (shipment.of.to.position > this.shipped.position) this.#setShipped(shipment.of.to);
    return undefined;
  }

  markShipped({ of }: Shipment): void {
    if (of.from === this.#again?.at) this.#again.at = of.to;
    else if (of.from === this.shipped) this.#setShipped(of.to);
  }

  #setShipped(place: RowPlace): void {
    this.shipped = place;
    const isPast = ({ position, rows }: ReadRows) => position + rows.length <= place.position;
    while (this.#kept[0] !== undefined && isPast(this.#kept[0]))
      this.#keptRows -= this.#kept.shift()?.rows.length ?? 0;
  }

  /** Ships an incarnation's rows again. Returns false if they are no longer kept or have not been shipped yet. */
  reship(incarnation: string, n: number): boolean {
    const at = this.#file.marks.findLast((mark) => mark.incarnation === incarnation && mark.n <= n);
    if (at === undefined || at.position >= this.shipped.position) return false;
    const again = { at, incarnation, n };
    if (this.#rows(at, this.shipped.position, again).bodies.length === 0) return false;
    this.#again = again;
    return true;
  }

  close(): void {
    this.#reader.close();
  }

  /** Collects rows of one incarnation before `end`. Returns none if the next rows belong to another than the wanted one. */
  #rows(
    from: RowPlace,
    end: number,
    wanted?: { readonly incarnation: string; readonly n: number },
  ): Shipment {
    const bodies: string[] = [];
    let at = from;
    let incarnation: string | undefined;
    while (at.position < end && bodies.length < usageRecordRowsMax) {
      const part = this.#partAt(at.position);
      const found = part && this.#placeIn(part, at);
      if (part === undefined || found === undefined) {
        this.#onError(new Error(`rows of usage from position ${at.position} on cannot be read and shipped`));
        at = this.#markBehind(at.position, end);
        continue;
      }
      const only = bodies.length > 0 ? incarnation : wanted?.incarnation;
      if (only !== undefined && found.incarnation !== only) break;
      incarnation = found.incarnation;
      at = this.#collect(part, found, { bodies, end, firstN: wanted?.n ?? 1 });
    }
    return { incarnation: incarnation ?? at.incarnation, bodies, of: { from, to: at } };
  }

  #collect(
    { position, rows }: ReadRows,
    at: RowPlace,
    { bodies, end, firstN }: { readonly bodies: string[]; readonly end: number; readonly firstN: number },
  ): RowPlace {
    const { incarnation, replica } = at;
    let { n } = at;
    let next = at.position;
    for (; next < end && next - position < rows.length && bodies.length < usageRecordRowsMax; next++) {
      const row = rows[next - position];
      if (row === undefined) continue;
      if (n >= firstN)
        bodies.push(`{"v":1,"incarnation":"${incarnation}","replica":"${replica}","n":${n},${row.slice(1)}`);
      n++;
    }
    return { position: next, incarnation, n, replica };
  }

  /** Group that contains the row at a position, or else the first group after that position. */
  #partAt(at: number): ReadRows | undefined {
    const hasIt = ({ position, rows }: ReadRows) => position <= at && at < position + rows.length;
    const kept = this.#kept.find(hasIt);
    if (kept !== undefined) return kept;
    if (this.#read !== undefined && hasIt(this.#read)) return this.#read;
    this.#read = undefined;
    try {
      if (this.#reader.position !== at) this.#reader.seek(at);
      const group = this.#reader.next(true);
      this.#read = group && this.#rowsIn(group);
    } catch (error) {
      this.#onError(error);
    }
    return this.#read;
  }

  /** Rows of a group, without those that were never counted because the group belongs to another database. */
  #rowsIn({ position, heading, text }: ReadSegmentGroup): ReadRows {
    const isOwn = headingIn(heading)?.database === this.#file.id;
    return { position, rows: textsIn(text).map((each) => (isOwn ? readUsage(each).row : undefined)) };
  }

  /** Place at which a group's rows begin, with their numbering. Undefined after a gap, where the numbers are unknown. */
  #placeIn({ position }: ReadRows, at: RowPlace): RowPlace | undefined {
    const from = Math.max(position, at.position);
    const mark = this.#file.marks.find((each) => each.position === from);
    return mark ?? (from === at.position ? at : undefined);
  }

  #markBehind(position: number, end: number): RowPlace {
    const mark = this.#file.marks.find((each) => each.position > position && each.position < end);
    return mark ?? { ...this.shipped, position: end };
  }
}
