/** Format of a group in a segment file (a head with a checksum, ids, and text), and of the names of segment files. */
import { promisify } from 'node:util';
import { crc32, deflateRaw } from 'node:zlib';

export interface RecordGroup {
  readonly count: number;
  /** Time of the group's latest record, in ms since 1970. */
  readonly lastMs: number;
  /** Ids of the records, 16 bytes each. Empty if no record is ever looked up by its id. */
  readonly ids: Uint8Array<ArrayBuffer>;
  readonly text: Uint8Array<ArrayBuffer>;
}

export const idBytes = 16;

/** Compression level. The text is so repetitive that the best level saves only a fifth more and takes three times as long. */
const deflateLevel = 1;
/** Minimum size in bytes of a text that is compressed. For a record or two, compression costs more than it saves. */
const deflatedFrom = 512;
/** Maximum size of a group's text. A typical group contains a few hundred records of less than a kilobyte each. */
export const textBytesMax = 8 * 1024 * 1024;
/** Maximum size of a segment file that is read. It allows for one group beyond the segment's target size. */
export const foundBytesMax = 2 * textBytesMax;

const deflate = promisify(deflateRaw);

/** A group as it is stored in a segment. */
export interface Frame {
  readonly position: number;
  readonly count: number;
  readonly lastMs: number;
  readonly ids: Buffer;
  readonly text: Buffer;
  readonly isDeflated: boolean;
  /** Checksum of the heading under which the group was written. */
  readonly form: number;
  /** Size of the group in the segment, in bytes. */
  readonly bytes: number;
}

export interface ReadGroup {
  readonly position: number;
  readonly ids: Buffer;
  readonly text: string;
  /** Heading of the group's segment, or empty if the segment has none. */
  readonly heading: string;
}

export const nameForm = /^\d{16}\.records$/;

export function nameOf(position: number): string {
  return `${String(position).padStart(16, '0')}.records`;
}

const magic = Buffer.from('HGR1');
const headBytes = 44;
/** Offsets of the numbers in a group's head. The checksum covers all of the group that follows the checksum. */
const place = {
  checksum: 4,
  bytes: 8,
  count: 12,
  position: 16,
  lastMs: 24,
  idBytes: 32,
  deflated: 36,
  form: 40,
};

export async function frameOf(
  { count, lastMs, ids, text }: RecordGroup,
  position: number,
  form: number,
  mayDeflate: boolean,
): Promise<Buffer> {
  const isDeflated = mayDeflate && text.length >= deflatedFrom;
  const packed = isDeflated ? await deflate(text, { level: deflateLevel }) : text;
  const head = Buffer.alloc(headBytes);
  magic.copy(head);
  head.writeUInt32LE(headBytes + ids.length + packed.length, place.bytes);
  head.writeUInt32LE(count, place.count);
  head.writeDoubleLE(position, place.position);
  head.writeDoubleLE(lastMs, place.lastMs);
  head.writeUInt32LE(ids.length, place.idBytes);
  head.writeUInt32LE(isDeflated ? 1 : 0, place.deflated);
  head.writeUInt32LE(form, place.form);
  const frame = Buffer.concat([head, ids, packed]);
  frame.writeUInt32LE(crc32(frame.subarray(place.bytes)), place.checksum);
  return frame;
}

/** Builds a group that contains a segment's heading instead of records. */
export function headed(heading: string): RecordGroup {
  return { count: 0, lastMs: 0, ids: new Uint8Array(), text: new TextEncoder().encode(heading) };
}

/** Yields those complete groups that have records. Skips damaged bytes and the remains of failed writes. */
export function* framesIn(bytes: Buffer, from = 0): Generator<Frame, void> {
  for (let at = from; at !== -1 && at + headBytes <= bytes.length; ) {
    const frame = frameAt(bytes, at);
    if (frame !== undefined && frame.count > 0) yield frame;
    at = frame === undefined ? bytes.indexOf(magic, at + 1) : at + frame.bytes;
  }
}

/** Size in bytes that the group at an offset has according to its head, or 0 if no group begins there. */
export function frameBytesAt(segment: Buffer, at: number): number {
  if (at + headBytes > segment.length || !segment.subarray(at, at + magic.length).equals(magic)) return 0;
  return segment.readUInt32LE(at + place.bytes);
}

export function frameAt(segment: Buffer, at: number): Frame | undefined {
  const bytes = frameBytesAt(segment, at);
  if (bytes === 0) return undefined;
  const idsEnd = headBytes + segment.readUInt32LE(at + place.idBytes);
  if (at + bytes > segment.length || idsEnd > bytes) return undefined;
  const frame = segment.subarray(at, at + bytes);
  if (crc32(frame.subarray(place.bytes)) !== frame.readUInt32LE(place.checksum)) return undefined;
  return {
    bytes,
    count: frame.readUInt32LE(place.count),
    position: frame.readDoubleLE(place.position),
    lastMs: frame.readDoubleLE(place.lastMs),
    isDeflated: frame.readUInt32LE(place.deflated) === 1,
    form: frame.readUInt32LE(place.form),
    ids: frame.subarray(headBytes, idsEnd),
    text: frame.subarray(idsEnd),
  };
}
