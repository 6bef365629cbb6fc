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
/** An entry: the length of its subject, the subject, a bit for `yields`, 47 bits of the window, 32 bits each of limit, used and claim. */
const numberBytes = 18;
/** Of the upper 16 bits of the window. */
const yieldsBit = 0x8000;

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
  /** The process has given up its standing share of this limit, because another lacks room. */
  readonly yields?: boolean;
}

/** A process, and the offset of the last record of it that the writer has read. */
export type LastSeen = readonly [process: string, offset: number];

interface GaugeHead {
  readonly process: string;
  /** The gateway's name, for people. */
  readonly name: string;
  /** Grows with each record of the process. */
  readonly n: number;
  /** The writer's clock, ms since 1970. */
  readonly at: number;
  /** How far the log's time is ahead of the time by which the writer counts periods, ms. Absent if they agree. */
  readonly leap?: number;
  /** Minutes that begin from here on, ms since 1970, count the process as a member. */
  readonly from?: number;
  /** The process takes all room: no other is live, and this is the offset of the last record that it has read. */
  readonly alone?: number;
  /** Silent for so long that what they held in flight no longer counts. */
  readonly ended: readonly LastSeen[];
  /** Silent for so long that they no longer hold all room. */
  readonly silent: readonly LastSeen[];
}

export interface GaugeRecord extends GaugeHead {
  readonly entries: readonly GaugeEntry[];
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
  for (const { subject, window, limit, used, claim, yields } of entries) {
    at = value.writeUInt8(subject.length, at);
    at += value.write(subject, at, 'latin1');
    at = value.writeUIntBE(window + (yields === true ? yieldsBit * 2 ** 32 : 0), at, 6);
    for (const amount of [limit, used, claim]) at = value.writeUInt32BE(Math.min(amount, amountMax), at);
  }
  return value;
}

/** undefined where the record is of another version, cut, or out of bounds. */
export function decodeGauges(value: Uint8Array): GaugeRecord | undefined {
  const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  if (bytes.length < prefixBytes || bytes[0] !== version) return undefined;
  const headEnd = prefixBytes + bytes.readUInt16BE(1);
  const count = bytes.readUInt16BE(3);
  if (headEnd > bytes.length || count > gaugeEntriesMax) return undefined;
  const head = readHead(bytes.toString('utf8', prefixBytes, headEnd));
  const entries = head && readEntries(bytes, headEnd, count);
  return entries && { entries, ...head };
}

function readHead(text: string): GaugeHead | undefined {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (typeof json !== 'object' || json === null) return undefined;
  const {
    process,
    name,
    n,
    at,
    leap,
    from,
    alone,
    ended = [],
    silent = [],
  } = json as Record<string, unknown>;
  if (!isId(process) || !isText(name) || !isCount(n) || !isCount(at)) return undefined;
  if (!isOptionalCount(alone) || !isOptionalCount(from)) return undefined;
  if (!areLastSeen(ended) || !areLastSeen(silent)) return undefined;
  // To spread objects into it would cost more than the rest.
  const head: { -readonly [Name in keyof GaugeHead]: GaugeHead[Name] } = {
    process,
    name,
    n,
    at,
    ended,
    silent,
  };
  if (Number.isSafeInteger(leap)) head.leap = leap as number;
  if (from !== undefined) head.from = from;
  if (alone !== undefined) head.alone = alone;
  return head;
}

/** undefined unless the bytes are so many whole entries. */
function readEntries(bytes: Buffer, from: number, count: number): GaugeEntry[] | undefined {
  const entries: GaugeEntry[] = [];
  let at = from;
  for (let n = 0; n < count; n++) {
    const end = at + 1 + (bytes[at] ?? 0);
    const subject = end + numberBytes > bytes.length ? undefined : subjectAt(bytes, at + 1, end);
    if (subject === undefined) return undefined;
    const high = uint16At(bytes, end);
    entries.push({
      subject,
      window: (high & ~yieldsBit) * 2 ** 32 + uint32At(bytes, end + 2),
      limit: uint32At(bytes, end + 6),
      used: uint32At(bytes, end + 10),
      claim: uint32At(bytes, end + 14),
      yields: (high & yieldsBit) !== 0,
    });
    at = end + numberBytes;
  }
  return at === bytes.length ? entries : undefined;
}

/** The bounds were checked for the whole entry; a call that checks each number takes twice as long. */
function uint16At(bytes: Buffer, at: number): number {
  return ((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0);
}

function uint32At(bytes: Buffer, at: number): number {
  return ((uint16At(bytes, at) << 16) | uint16At(bytes, at + 2)) >>> 0;
}

/** Subjects that were read lately, by a hash of their bytes: most entries name one of them, and a new string costs more. */
const subjects: (string | undefined)[] = new Array(0x4000).fill(undefined);

/** Printable ASCII; undefined where it is not. */
function subjectAt(bytes: Buffer, from: number, to: number): string | undefined {
  if (from === to || to > from + textMax) return undefined;
  let hash = 0;
  for (let at = from; at < to; at++) {
    const byte = bytes[at] ?? 0;
    if (byte <= 0x20 || byte >= 0x7f) return undefined;
    hash = (Math.imul(hash, 31) + byte) | 0;
  }
  const slot = (hash ^ (hash >>> 14)) & (subjects.length - 1);
  const known = subjects[slot];
  if (known !== undefined && isSame(known, bytes, from, to)) return known;
  const subject = bytes.toString('latin1', from, to);
  subjects[slot] = subject;
  return subject;
}

function isSame(text: string, bytes: Buffer, from: number, to: number): boolean {
  if (text.length !== to - from) return false;
  for (let at = from; at < to; at++) if (text.charCodeAt(at - from) !== bytes[at]) return false;
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

function isOptionalCount(value: unknown): value is number | undefined {
  return value === undefined || isCount(value);
}

function areLastSeen(list: unknown): list is LastSeen[] {
  return Array.isArray(list) && list.length <= namedMax && list.every(isLastSeen);
}

function isLastSeen(item: unknown): boolean {
  return Array.isArray(item) && item.length === 2 && isId(item[0]) && isCount(item[1]);
}
