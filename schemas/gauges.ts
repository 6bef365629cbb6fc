/**
 * A record of the topic `headgate.gauges`: what one gateway process holds and asks for of the limits that hold over the whole
 * fleet (requests of a minute, weight in flight). Read as hostile input, and as a whole or not at all.
 *
 * Each gateway reads the records of all others, so reading must cost little. A version byte, the length of the head and the number of entries (16 bits each), the head as JSON, the entries.
 */

/** Entries of one record, at most. */
export const gaugeEntriesMax = 500;
/** Other processes that one record names, at most. */
const namedMax = 200;
const textMax = 200;
/** Ids of processes are made by them; so short, 400 of them and a name fit into a head whatever they are. */
const idPattern = /^[\x21-\x7e]{1,64}$/;
/** Of a limit, of what is used and of a claim; a tier may have any limit, and more than this is none. */
const amountMax = 0xffff_ffff;
const version = 2;
/** Before the head. */
const prefixBytes = 5;
/** An entry: the length of its subject, the subject, 48 bits of the window, 32 bits each of limit, used and claim. */
const numberBytes = 18;

/** What concurrency has in place of the beginning of a minute. */
export const inFlightWindow = 0;

/** One limit of one subject: an organisation, or all visitors, or a network. */
export interface GaugeEntry {
  /** Printable ASCII. */
  readonly subject: string;
  /** Beginning of the minute, ms since 1970; `inFlightWindow` for concurrency. */
  readonly window: number;
  readonly limit: number;
  /** Admitted by this process: requests of the minute, or weight in flight. */
  readonly used: number;
  /** What it wants to hold, `used` included. */
  readonly claim: number;
}

/** A process, and the offset of the last record of it that the writer has read. */
export type LastSeen = readonly [process: string, offset: number];

interface GaugeHead {
  readonly process: string;
  /** The gateway's name, for people. */
  readonly name: string;
  /** Grows with each record of the process. */
  readonly n: number;
  /** The process takes all room: no other is live, and this is the offset of the last record that it has read. */
  readonly alone?: number;
  /** Silent for so long that what they held in flight no longer counts. */
  readonly ended: readonly LastSeen[];
  /** Silent for so long that they no longer hold all room. */
  readonly silent: readonly LastSeen[];
}

/** As it is written. */
export interface GaugeRecord extends GaugeHead {
  readonly entries: readonly GaugeEntry[];
}

/** As it is read. */
export interface ReadGauges extends GaugeHead {
  readonly entries: PackedEntries;
}

function uintAt(bytes: Buffer, from: number, length: number): number {
  let value = 0;
  for (let at = from; at < from + length; at++) value = value * 256 + (bytes[at] ?? 0);
  return value;
}

/** The entries of a record that was checked, as bytes. */
export class PackedEntries {
  readonly #bytes: Buffer;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get byteLength(): number {
    return this.#bytes.length;
  }

  everyWindow(is: (window: number) => boolean): boolean {
    const bytes = this.#bytes;
    for (let at = 0; at < bytes.length; ) {
      const end = at + 1 + (bytes[at] ?? 0);
      if (!is(uintAt(bytes, end, 6))) return false;
      at = end + numberBytes;
    }
    return true;
  }

  /** Visits the entries in their order. */
  visit(each: (entry: GaugeEntry) => void): void {
    const bytes = this.#bytes;
    for (let at = 0; at < bytes.length; ) {
      const end = at + 1 + (bytes[at] ?? 0);
      each({
        subject: bytes.toString('latin1', at + 1, end),
        window: uintAt(bytes, end, 6),
        limit: uintAt(bytes, end + 6, 4),
        used: uintAt(bytes, end + 10, 4),
        claim: uintAt(bytes, end + 14, 4),
      });
      at = end + numberBytes;
    }
  }
}

/** What is out of the reader's bounds is cut to them: a gateway whose records nobody reads would be cut off. */
export function encodeGauges({ name, entries, ended, silent, ...rest }: GaugeRecord): Buffer {
  const head = Buffer.from(
    JSON.stringify({
      ...rest,
      name: name.slice(0, textMax),
      // The others are named by a later record.
      ...(ended.length > 0 && { ended: ended.slice(0, namedMax) }),
      ...(silent.length > 0 && { silent: silent.slice(0, namedMax) }),
    }),
  );
  let size = prefixBytes + head.length;
  for (const { subject } of entries) size += 1 + subject.length + numberBytes;
  const value = Buffer.allocUnsafe(size);
  value[0] = version;
  value.writeUInt16BE(head.length, 1);
  value.writeUInt16BE(entries.length, 3);
  let at = head.copy(value, prefixBytes) + prefixBytes;
  for (const { subject, window, limit, used, claim } of entries) {
    at = value.writeUInt8(subject.length, at);
    at += value.write(subject, at, 'latin1');
    at = value.writeUIntBE(window, at, 6);
    for (const amount of [limit, used, claim]) at = value.writeUInt32BE(Math.min(amount, amountMax), at);
  }
  return value;
}

/** undefined where the record is of another version, cut, or out of bounds. */
export function decodeGauges(value: Uint8Array): ReadGauges | undefined {
  const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  if (bytes.length < prefixBytes || bytes[0] !== version) return undefined;
  const headEnd = prefixBytes + bytes.readUInt16BE(1);
  const count = bytes.readUInt16BE(3);
  if (headEnd > bytes.length || count > gaugeEntriesMax) return undefined;
  const head = readHead(bytes.toString('utf8', prefixBytes, headEnd));
  if (head === undefined || !areEntries(bytes, headEnd, count)) return undefined;
  return { ...head, entries: new PackedEntries(bytes.subarray(headEnd)) };
}

function readHead(text: string): GaugeHead | undefined {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (typeof json !== 'object' || json === null) return undefined;
  const { process, name, n, alone, ended = [], silent = [] } = json as Record<string, unknown>;
  if (!isId(process) || !isText(name) || !isCount(n)) return undefined;
  if (alone !== undefined && !isCount(alone)) return undefined;
  if (!areLastSeen(ended) || !areLastSeen(silent)) return undefined;
  return { process, name, n, ended, silent, ...(alone !== undefined && { alone }) };
}

/** Are these bytes so many whole entries? */
function areEntries(bytes: Buffer, from: number, count: number): boolean {
  let at = from;
  for (let n = 0; n < count; n++) {
    const end = at + 1 + (bytes[at] ?? 0);
    if (end + numberBytes > bytes.length || !isSubject(bytes, at + 1, end)) return false;
    at = end + numberBytes;
  }
  return at === bytes.length;
}

/** Printable ASCII. */
function isSubject(bytes: Buffer, from: number, to: number): boolean {
  if (from === to || to > from + textMax) return false;
  for (let at = from; at < to; at++) if ((bytes[at] ?? 0) <= 0x20 || (bytes[at] ?? 0) >= 0x7f) return false;
  return true;
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value.length > 0 && value.length <= textMax;
}

function isId(value: unknown): value is string {
  return typeof value === 'string' && idPattern.test(value);
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function areLastSeen(list: unknown): list is LastSeen[] {
  return Array.isArray(list) && list.length <= namedMax && list.every(isLastSeen);
}

function isLastSeen(item: unknown): boolean {
  return Array.isArray(item) && item.length === 2 && isId(item[0]) && isCount(item[1]);
}
