/**
 * The record batches of a response to a fetch. The producer of a batch chooses its codec, size and number of records, so
 * nothing is inflated or decoded before its header shows that it is bounded. A batch that is not readable is skipped by its
 * header, which has its offsets: a rule about the bytes alone, so that all readers skip the same at any time. The service
 * never compresses what it writes.
 *
 * Batches count without regard to transactions, because an abort that is written later must not change what was read.
 */
import type { LogRecord, UnreadableCause } from '../core/control-log.ts';

/** The header that carries a record's signature. */
export const signatureHeader = 'headgate-signature';

export interface RecordBatch {
  readonly firstOffset: number;
  /** The offset after its last record. */
  readonly nextOffset: number;
  /** Equal of the same batch, also on another broker and after a restart; includes its checksum and times. */
  readonly identity: string;
  /** Why its records are not read. */
  readonly unreadable?: UnreadableCause;
  /** None of a marker of a transaction. One that is empty and not signed in place of a batch that is unreadable. */
  readonly records: readonly LogRecord[];
}

/** The default of `max.message.bytes`; own batches are at most as large. */
const batchBytesMax = 1_048_588;
/** Own batches have at most 500; a batch is decoded in one turn of the event loop. */
export const batchRecordsMax = 10_000;

/** Offset and length, which all formats begin with and which the length does not include. */
const prefixBytes = 12;
const headerBytes = 61;
const [lengthAt, magicAt, attributesAt, lastDeltaAt, timeAt, countAt] = [8, 16, 21, 23, 35, 57];
const [codecBits, markerBit] = [0b111, 0b100000];

/** In their order. A batch that the response cuts off is left out. Decodes each when it is asked for. */
export function* batchesOf(recordSet: Buffer): Generator<RecordBatch> {
  let at = 0;
  while (at + prefixBytes <= recordSet.length) {
    const end = at + prefixBytes + Math.max(recordSet.readInt32BE(at + lengthAt), magicAt + 1 - prefixBytes);
    if (end > recordSet.length) return;
    yield batchOf(recordSet.subarray(at, end));
    at = end;
  }
}

function batchOf(bytes: Buffer): RecordBatch {
  const firstOffset = Number(bytes.readBigInt64BE(0));
  const identity = bytes.toString('latin1', magicAt, headerBytes);
  // Before the format of today, a message had one offset, that of the last one where it contained several.
  const isOld = bytes.length < headerBytes || bytes.readInt8(magicAt) !== 2;
  const nextOffset = firstOffset + 1 + (isOld ? 0 : Math.max(bytes.readInt32BE(lastDeltaAt), 0));
  const batch = { firstOffset, nextOffset, identity };
  const found = isOld ? 'old_format' : readable(bytes, nextOffset - firstOffset);
  if (typeof found !== 'string') return { ...batch, records: found };
  const record = { offset: nextOffset - 1, value: Buffer.alloc(0), signature: null };
  return { ...batch, unreadable: found, records: [record] };
}

function readable(bytes: Buffer, offsets: number): LogRecord[] | UnreadableCause {
  const attributes = bytes.readInt16BE(attributesAt);
  if ((attributes & markerBit) !== 0) return [];
  if ((attributes & codecBits) !== 0) return 'compressed';
  if (bytes.length > batchBytesMax) return 'too_large';
  const count = bytes.readInt32BE(countAt);
  if (count > batchRecordsMax) return 'too_many_records';
  if (count !== offsets) return 'malformed';
  try {
    const cursor = new Cursor(bytes, headerBytes);
    const firstOffset = Number(bytes.readBigInt64BE(0));
    // Where the broker stamps records, each of a batch has this time.
    const atMs = Number(bytes.readBigInt64BE(timeAt));
    return Array.from({ length: count }, (_, index) => ({
      ...recordOf(cursor.slice(cursor.length()), firstOffset, index),
      atMs,
    }));
  } catch (error) {
    if (error instanceof RangeError) return 'malformed';
    throw error;
  }
}

/** Throws RangeError where the bytes are no record, or one at another place than its offset claims. */
function recordOf(bytes: Buffer, firstOffset: number, index: number): LogRecord {
  const cursor = new Cursor(bytes, 1);
  cursor.skipVarint(); // The time.
  if (cursor.varint() !== index) throw new RangeError('the offsets of a batch are consecutive');
  cursor.nullable(); // The key.
  const value = cursor.nullable() ?? Buffer.alloc(0);
  const signatures: (Buffer | null)[] = [];
  for (let left = cursor.length(); left > 0; left--) {
    const name = cursor.slice(cursor.length());
    const content = cursor.nullable();
    if (name.equals(signatureName)) signatures.push(content);
  }
  // Several signatures count as none.
  const signature = signatures.length === 1 ? (signatures[0] ?? null) : null;
  return { offset: firstOffset + index, value, signature };
}

const signatureName = Buffer.from(signatureHeader);

/** Reads the parts of a record one after the other. Throws RangeError past the end. */
class Cursor {
  readonly #bytes: Buffer;
  #at: number;

  constructor(bytes: Buffer, at: number) {
    this.#bytes = bytes;
    this.#at = at;
  }

  slice(length: number): Buffer {
    const from = this.#at;
    if (from + length > this.#bytes.length) throw new RangeError('a record is cut off');
    this.#at += length;
    return this.#bytes.subarray(from, this.#at);
  }

  length(): number {
    const length = this.varint();
    if (length < 0) throw new RangeError('a length is negative');
    return length;
  }

  nullable(): Buffer | null {
    const length = this.varint();
    return length < 0 ? null : this.slice(length);
  }

  /** Seven bits a byte, the lowest first, at most 32 in all; the lowest of the number is its sign. */
  varint(): number {
    let bits = 0;
    for (let shift = 0; shift < 35; shift += 7) {
      const byte = this.#bytes.readUInt8(this.#at++);
      bits |= (byte & 0x7f) << shift;
      if (byte < 0x80) return (bits >>> 1) ^ -(bits & 1);
    }
    throw new RangeError('a number is too long');
  }

  skipVarint(): void {
    for (let bytes = 0; bytes < 10; bytes++) if (this.#bytes.readUInt8(this.#at++) < 0x80) return;
    throw new RangeError('a number is too long');
  }
}
