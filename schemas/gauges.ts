/**
 * A record of the topic `headgate.gauges`: what one gateway process holds and asks for of the limits that hold over the whole
 * fleet (requests of a minute, weight in flight). JSON; read as hostile input, and as a whole or not at all.
 */

/** Entries of one record, at most. */
export const gaugeEntriesMax = 500;
/** Other processes that one record names, at most. */
const namedMax = 200;
const textMax = 200;
const amountMax = 1_000_000_000;

/** What concurrency has in place of the beginning of a minute. */
export const inFlightWindow = 0;

/** One limit of one subject: an organisation, or all visitors, or a network. */
export interface GaugeEntry {
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

export interface GaugeRecord {
  readonly v: 1;
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
  readonly entries: readonly GaugeEntry[];
}

type EntryList = readonly [subject: string, window: number, limit: number, used: number, claim: number];

/** Entries are lists, which cost half of what objects do. */
export function encodeGauges({ entries, ended, silent, ...rest }: GaugeRecord): Buffer {
  const lists = entries.map(
    ({ subject, window, limit, used, claim }): EntryList => [subject, window, limit, used, claim],
  );
  return Buffer.from(
    JSON.stringify({
      ...rest,
      ...(ended.length > 0 && { ended }),
      ...(silent.length > 0 && { silent }),
      entries: lists,
    }),
  );
}

/** undefined where the record is of another version, cut, or out of bounds. */
export function decodeGauges(value: Uint8Array): GaugeRecord | undefined {
  let json: unknown;
  try {
    json = JSON.parse(Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString());
  } catch {
    return undefined;
  }
  if (typeof json !== 'object' || json === null) return undefined;
  const { v, process, name, n, alone, ended = [], silent = [], entries } = json as Record<string, unknown>;
  if (v !== 1 || !isText(process) || !isText(name) || !isCount(n)) return undefined;
  if (alone !== undefined && !isCount(alone)) return undefined;
  if (!isListOf(ended, namedMax, isLastSeen) || !isListOf(silent, namedMax, isLastSeen)) return undefined;
  if (!isListOf(entries, gaugeEntriesMax, isEntry)) return undefined;
  return {
    ...{ v, process, name, n, ended, silent },
    ...(alone !== undefined && { alone }),
    entries: entries.map(([subject, window, limit, used, claim]) => ({
      subject,
      window,
      limit,
      used,
      claim,
    })),
  };
}

function isListOf<Item>(list: unknown, max: number, is: (item: unknown) => item is Item): list is Item[] {
  return Array.isArray(list) && list.length <= max && list.every(is);
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value.length > 0 && value.length <= textMax;
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function isAmount(value: unknown): value is number {
  return isCount(value) && value <= amountMax;
}

function isLastSeen(item: unknown): item is LastSeen {
  return Array.isArray(item) && item.length === 2 && isText(item[0]) && isCount(item[1]);
}

function isEntry(item: unknown): item is EntryList {
  if (!Array.isArray(item) || item.length !== 5) return false;
  // By index: this runs for each entry of each record of the fleet.
  return isText(item[0]) && isCount(item[1]) && isAmount(item[2]) && isAmount(item[3]) && isAmount(item[4]);
}
