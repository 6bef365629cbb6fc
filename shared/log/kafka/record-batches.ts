/**
 * Decodes the record batches of a fetch response. Producers choose a batch's codec and size, so a batch is decoded only after
 * its header shows that it is bounded. An unreadable batch is skipped by the offsets in its header. This depends on the bytes
 * alone, so all readers skip the same batches. Transactions are ignored, because an abort that is written later must not
 * change what was read.
 */
import type { LogRecord, UnreadableCause } from '../core/control-log.ts';

/** Name of the header that contains a record's signature. */
export const signatureHeader = 'headgate-signature';

export interface RecordBatch {
  readonly firstOffset: number;
  /** Offset after the last record of the batch. */
  readonly nextOffset: number;
  /** Identity of the batch, including its checksum and times. Equal on all brokers and unchanged after a restart. */
  readonly identity: string;
  /** Reason why the batch's records were not read. */
  readonly unreadable?: UnreadableCause;
  /** Decoded records. A transaction marker has none. An unreadable batch has one empty, unsigned record instead. */
  readonly records: readonly LogRecord[];
}

/** Kafka's default `max.message.bytes`. The service's own batches are not larger. */
const batchBytesMax = 1_048_588;
/** Maximum number of records in a readable batch, which is decoded in one turn. The service's own batches have up to 500. */
export const batchRecordsMax = 10_000;

/** Size in bytes of the offset and length fields at the start of every format. The length field does not count them. */
const prefixBytes = 12;
const headerBytes = 61;
const [lengthAt, magicAt, attributesAt, lastDeltaAt, timeAt, countAt] = [8, 16, 21, 23, 35, 57];
const [codecBits, markerBit] = [0b111, 0b100000];

/** Yields the batches in order, decoding each on demand. Omits a last batch that is incomplete. */
export function* parseBatches(recordSet: Buffer): Generator<RecordBatch> {
  let at = 0;
  while (at + prefixBytes <= recordSet.length) {
    const end = at + prefixBytes + Math.max(recordSet.readInt32BE(at + lengthAt), magicAt + 1 - prefixBytes);
    if (end > recordSet.length) return;
    yield parseBatch(recordSet.subarray(at, end));
    at = end;
  }
}

function parseBatch(bytes: Buffer): RecordBatch {
  const firstOffset = Number(bytes.readBigInt64BE(0));
  const identity = bytes.toString('latin1', magicAt, headerBytes);
  // In older formats, a message has only one offset: that of its last record, if it contains several.
  const isOld = bytes.length < headerBytes || bytes.readInt8(magicAt) !== 2;
  const nextOffset = firstOffset + 1 + (isOld ? 0 : Math.max(bytes.readInt32BE(lastDeltaAt), 0));
  const batch = { firstOffset, nextOffset, identity };
  const found = isOld ? 'old_format' : parseRecords(bytes, nextOffset - firstOffset);
  if (typeof found !== 'string') return { ...batch, records: found };
  const record = { offset: nextOffset - 1, value: Buffer.alloc(0), signature: null };
  return { ...batch, unreadable: found, records: [record] };
}

function parseRecords(bytes: Buffer, offsets: number): LogRecord[] | UnreadableCause {
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
    // If the broker sets record times, all records in the batch have the time in the batch's header.
    const atMs = Number(bytes.readBigInt64BE(timeAt));
    return Array.from({ length: count }, (_, index) => ({
      ...parseRecord(cursor.slice(cursor.length()), firstOffset, index),
      atMs,
    }));
  } catch (error) {
    if (error instanceof RangeError) return 'malformed';
    throw error;
  }
}

/** Decodes one record. Throws `RangeError` if the bytes are not the record at this index of the batch. */
function parseRecord(bytes: Buffer, firstOffset: number, index: number): LogRecord {
  const cursor = new Cursor(bytes, 1);
  cursor.skipVarint(); // Skip the timestamp.
  if (cursor.varint() !== index) throw new RangeError('the offsets of a batch are consecutive');
  cursor.nullable(); // Skip the key.
  const value = cursor.nullable() ?? Buffer.alloc(0);
  const signatures: (Buffer | null)[] = [];
  for (let left = cursor.length(); left > 0; left--) {
    const name = cursor.slice(cursor.length());
    const content = cursor.nullable();
    if (name.equals(signatureName)) signatures.push(content);
  }
  // A record with several signatures counts as unsigned.
  const signature = signatures.length === 1 ? (signatures[0] ?? null) : null;
  return { offset: firstOffset + index, value, signature };
}

const signatureName = Buffer.from(signatureHeader);

/** Reads the fields of a record in order. Throws `RangeError` if a field extends past the end. */
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

  /** Decodes a zigzag varint of up to 32 bits. A byte contains seven bits, lowest first, and the lowest bit is the sign. */
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
