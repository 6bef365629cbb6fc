/** Format of a group of records in a segment (a head with a checksum, ids, and text), and of a segment's name. */
import { promisify } from 'node:util';
import { crc32, deflateRaw } from 'node:zlib';

export interface RecordGroup {
  readonly count: number;
  /** Time of the latest record, in ms since 1970. */
  readonly lastMs: number;
  /** Ids of 16 bytes each; empty if single records are never looked up. */
  readonly ids: Uint8Array<ArrayBuffer>;
  /** Text of the records, in UTF-8. */
  readonly text: Uint8Array<ArrayBuffer>;
}

export const idBytes = 16;

/** Fastest level: the text is so repetitive that the best one saves only a fifth more, for three times the time. */
const deflateLevel = 1;
/** Shorter texts, of a record or two, stay uncompressed, because starting a compression costs more than it saves. */
const deflatedFrom = 512;
/** Bound on a group's text. Groups usually contain some hundreds of records of less than a kilobyte. */
export const textBytesMax = 8 * 1024 * 1024;
/** Bound on a segment file: only one group may exceed a segment's own bound. */
export const foundBytesMax = 2 * textBytesMax;

const deflate = promisify(deflateRaw);

/** A group as a segment stores it. */
export interface Frame {
  readonly position: number;
  readonly count: number;
  readonly lastMs: number;
  readonly ids: Buffer;
  readonly text: Buffer;
  readonly isDeflated: boolean;
  /** Checksum of its writer's heading. */
  readonly form: number;
  /** Length in the segment, in bytes. */
  readonly bytes: number;
}

/** A group that was read, with the position of its first record. */
export interface ReadGroup {
  readonly position: number;
  readonly ids: Buffer;
  readonly text: string;
  /** Heading of its segment; empty if there is none. */
  readonly heading: string;
}

export const nameForm = /^\d{16}\.records$/;

export function nameOf(position: number): string {
  return `${String(position).padStart(16, '0')}.records`;
}

const magic = Buffer.from('HGR1');
const headBytes = 44;
/** Offsets of the numbers in the head. The checksum covers all that follows it. */
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

/** A group without records, which contains a segment's heading. */
export function headed(heading: string): RecordGroup {
  return { count: 0, lastMs: 0, ids: new Uint8Array(), text: new TextEncoder().encode(heading) };
}

/** Whole groups with records. Skips damage and the remains of failed writes. */
export function* framesIn(bytes: Buffer, from = 0): Generator<Frame, void> {
  for (let at = from; at !== -1 && at + headBytes <= bytes.length; ) {
    const frame = frameAt(bytes, at);
    if (frame !== undefined && frame.count > 0) yield frame;
    at = frame === undefined ? bytes.indexOf(magic, at + 1) : at + frame.bytes;
  }
}

/** Length of the group that begins at `at`, according to its head; 0 if none does. */
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
