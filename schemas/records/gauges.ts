/**
 * Format of records on the topic `headgate.gauges`. A record states how much of each fleet-wide limit on requests per minute
 * and weight in flight one gateway process holds and claims. Readers treat a record as hostile input and accept either all of
 * it or nothing. Records must be cheap to read, so the format is binary: a version byte, the head's length and the number of
 * entries (16 bits each), the head as JSON, then the entries.
 */

export const gaugeEntriesMax = 500;
/** Maximum length of `ended` and of `silent`, the lists of other processes in a record. */
const namedMax = 200;
const textMax = 200;
/** Id of a process. Ids are generated, and are so short that a record's head always has room for 400 of them and a name. */
const idPattern = /^[\x21-\x7e]{1,64}$/;
/** Maximum value of a limit, of a used amount and of a claim. A higher limit of a tier counts as unlimited. */
const amountMax = 0xffff_ffff;
const version = 2;
/** Number of bytes before the head of a record. */
const prefixBytes = 5;
/**
 * Number of bytes for the numbers of an entry: one bit for `yields`, 47 bits for the window, and 32 bits each for limit, used
 * and claim. They follow the subject and one byte with the subject's length.
 */
const numberBytes = 18;
/** Bit that stands for `yields`, in the upper 16 of the 48 bits that contain the window. */
const yieldsBit = 0x8000;

/** Value of `window` for a limit on concurrency, which does not belong to a minute. */
export const inFlightWindow = 0;

/** Entry for one limit of one subject. Subjects are organisations, networks, and all visitors together. */
export interface GaugeEntry {
  /** Id of the subject, in printable ASCII. */
  readonly subject: string;
  /** Start of the minute to which the entry belongs in ms since 1970, or `inFlightWindow` for a limit on concurrency. */
  readonly window: number;
  readonly limit: number;
  /** Amount that this process has admitted: number of requests in the minute, or weight in flight. */
  readonly used: number;
  /** Amount that the process wants to hold, including `used`. */
  readonly claim: number;
  /** Whether the process has given up its usual share of this limit because another process lacks room. */
  readonly yields?: boolean;
}

/** Id of a process other than the writer, and the offset of the last record that the writer has read from it. */
export type LastSeen = readonly [process: string, offset: number];

interface GaugeHead {
  readonly process: string;
  /** Name of the gateway, for people to read. */
  readonly name: string;
  /** Number of the record, which increases with each record that the process writes. */
  readonly n: number;
  /** Time of writing by the writer's clock, in ms since 1970. */
  readonly at: number;
  /** Log time minus the time by which the writer assigns requests to periods, in ms. Absent if the two agree. */
  readonly leap?: number;
  /** Start of the first minute in which the process counts as a member of the fleet, in ms since 1970. */
  readonly from?: number;
  /** Offset of the last record that the process has read. Set if the process takes all room, because it sees no other. */
  readonly alone?: number;
  /** Other processes that have been silent for so long that their requests in flight no longer count. */
  readonly ended: readonly LastSeen[];
  /** Other processes that have been silent for so long that they can no longer hold all room. */
  readonly silent: readonly LastSeen[];
}

export interface GaugeRecord extends GaugeHead {
  readonly entries: readonly GaugeEntry[];
}

/** Encodes a record. Cuts values to the bounds that readers check, because readers ignore records that exceed a bound. */
export function encodeGauges({ name, entries, ended, silent, ...rest }: GaugeRecord): Buffer {
  const head = Buffer.from(
    JSON.stringify({
      ...rest,
      name: name.slice(0, textMax),
      // Processes that do not fit into this list are named in a later record.
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

/** Decodes a record. Returns undefined if it has another version, is truncated or exceeds a bound. */
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
  // The head is built field by field, because spreading objects would cost more than the rest of the function.
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

/** Decodes `count` entries. Returns undefined unless the entries end exactly at the end of `bytes`. */
function readEntries(bytes: Buffer, from: number, count: number): GaugeEntry[] | undefined {
  const entries: GaugeEntry[] = [];
  let at = from;
  for (let n = 0; n < count; n++) {
    const end = at + 1 + (bytes[at] ?? 0);
    const subject = end + numberBytes > bytes.length ? undefined : readSubject(bytes, at + 1, end);
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

/** Reads 16 bits without a bounds check, which would double the time. The caller has already checked the whole entry. */
function uint16At(bytes: Buffer, at: number): number {
  return ((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0);
}

function uint32At(bytes: Buffer, at: number): number {
  return ((uint16At(bytes, at) << 16) | uint16At(bytes, at + 2)) >>> 0;
}

/** Subjects read recently, by a hash of their bytes. Most repeat, and looking one up costs less than creating a string. */
const subjects: (string | undefined)[] = new Array(0x4000).fill(undefined);

/** Returns the subject between the two positions, or undefined unless it is printable ASCII. */
function readSubject(bytes: Buffer, from: number, to: number): string | undefined {
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
