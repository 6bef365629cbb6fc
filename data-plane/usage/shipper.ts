/** Reads the rows that are to be shipped from where they are kept, oldest first, each with its number. */
import { usageRecordRowsMax } from '../../schemas/usage.ts';
import type { ReadSegmentGroup, SegmentReader } from '../segments/segment-reader.ts';
import type { EarlierShipment } from './earlier-rows.ts';
import type { OutboxFile, RowPlace } from './outbox-file.ts';
import { readUsage, rowsIn } from './rows.ts';

/** Rows of one incarnation, in order, that make one record of the usage log. */
export interface Shipment {
  readonly incarnation: string;
  /** The rows as JSON. */
  readonly bodies: readonly string[];
  /** Where they are: in the log up to a place, or of an earlier build. */
  readonly of: { readonly from: RowPlace; readonly to: RowPlace } | EarlierShipment;
}

export class Shipper {
  /** What is before it is on the usage log. */
  shipped: RowPlace;
  readonly #file: OutboxFile;
  readonly #reader: SegmentReader;
  readonly #onError: (error: unknown) => void;
  /** The group that was read last. */
  #group: (ReadSegmentGroup & { readonly texts: readonly string[] }) | undefined;
  /** Rows that are shipped once more, up to what is shipped; numbers below `n` are left out. */
  #again: { at: RowPlace; readonly incarnation: string; readonly n: number } | undefined;

  constructor(file: OutboxFile, reader: SegmentReader, onError: (error: unknown) => void) {
    this.#file = file;
    this.#reader = reader;
    this.#onError = onError;
    this.shipped = file.shipped;
  }

  /** More is shipped than the file knows. */
  get isAhead(): boolean {
    return this.shipped !== this.#file.shipped;
  }

  next(): Shipment | undefined {
    const earlier = this.#file.earlier.next();
    if (earlier !== undefined)
      return { incarnation: earlier.incarnation, bodies: earlier.bodies, of: earlier };
    const again = this.#again && this.#rows(this.#again.at, this.shipped.position, this.#again);
    if (again !== undefined && again.bodies.length > 0) return again;
    this.#again = undefined;
    const shipment = this.#rows(this.shipped, this.#file.taken.taken);
    if (shipment.bodies.length > 0) return shipment;
    // What is neither a row nor readable is passed.
    if (shipment.of.to.position > this.shipped.position) this.shipped = shipment.of.to;
    return undefined;
  }

  markShipped({ of }: Shipment, nowMs: number): void {
    if ('uptoN' in of) this.#file.earlier.markShipped(of, nowMs);
    else if (of.from === this.#again?.at) this.#again.at = of.to;
    else if (of.from === this.shipped) this.shipped = of.to;
  }

  /** False where these rows are not kept, or not shipped. */
  reship(incarnation: string, n: number): boolean {
    if (this.#file.earlier.reship(incarnation, n)) return true;
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

  /** Rows of one incarnation before a position; none where the next ones are of another than is wanted. */
  #rows(
    from: RowPlace,
    end: number,
    wanted?: { readonly incarnation: string; readonly n: number },
  ): Shipment & { readonly of: { readonly from: RowPlace; readonly to: RowPlace } } {
    const bodies: string[] = [];
    let at = from;
    let incarnation: string | undefined;
    while (at.position < end && bodies.length < usageRecordRowsMax) {
      const group = this.#groupAt(at.position);
      const found = group && this.#placeIn(group, at);
      if (group === undefined || found === undefined) {
        this.#onError(new Error(`rows of usage from position ${at.position} on cannot be read and shipped`));
        at = this.#markBehind(at.position, end);
        continue;
      }
      const only = bodies.length > 0 ? incarnation : wanted?.incarnation;
      if (only !== undefined && found.incarnation !== only) break;
      incarnation = found.incarnation;
      at = this.#collect(group, found, { bodies, end, firstN: wanted?.n ?? 1 });
    }
    return { incarnation: incarnation ?? at.incarnation, bodies, of: { from, to: at } };
  }

  #collect(
    { position, texts }: { readonly position: number; readonly texts: readonly string[] },
    at: RowPlace,
    { bodies, end, firstN }: { readonly bodies: string[]; readonly end: number; readonly firstN: number },
  ): RowPlace {
    const { incarnation, replica } = at;
    let { n } = at;
    let next = at.position;
    for (; next < end && next - position < texts.length && bodies.length < usageRecordRowsMax; next++) {
      const { row } = readUsage(texts[next - position] ?? '');
      if (row === undefined) continue;
      if (n >= firstN)
        bodies.push(`{"v":1,"incarnation":"${incarnation}","replica":"${replica}","n":${n},${row.slice(1)}`);
      n++;
    }
    return { position: next, incarnation, n, replica };
  }

  #groupAt(position: number): (ReadSegmentGroup & { readonly texts: readonly string[] }) | undefined {
    const last = this.#group;
    if (last !== undefined && last.position <= position && position < last.position + last.count) return last;
    try {
      if (this.#reader.position !== position) this.#reader.seek(position);
      const group = this.#reader.next(true);
      this.#group = group && { ...group, texts: rowsIn(group.text) };
    } catch (error) {
      this.#onError(error);
      this.#group = undefined;
    }
    return this.#group;
  }

  /** How rows are numbered from a place on; undefined where that is in no group, and nobody knows. */
  #placeIn({ position }: ReadSegmentGroup, at: RowPlace): RowPlace | undefined {
    const from = Math.max(position, at.position);
    const mark = this.#file.marks.find((each) => each.position === from);
    return mark ?? (from === at.position ? at : undefined);
  }

  #markBehind(position: number, end: number): RowPlace {
    const mark = this.#file.marks.find((each) => each.position > position && each.position < end);
    return mark ?? { ...this.shipped, position: end };
  }
}
