import { daySeconds } from '../durations.ts';
/**
 * Records that gateways exchange so that limits hold across the whole fleet. The topic `headgate.gauges` carries requests per
 * minute and weight in flight, and `headgate.counters` carries tokens and turns. Records are cumulative, so a lost, late or
 * duplicate record does no harm once a later one arrives. Digests of the state do not cover these topics.
 */

export const gaugesTopic = 'headgate.gauges';
export const countersTopic = 'headgate.counters';
export type LimitTopicName = typeof gaugesTopic | typeof countersTopic;

/** Time in seconds for which Kafka keeps the records of each topic. */
export const limitTopicKeepSeconds = {
  [gaugesTopic]: 3600,
  [countersTopic]: daySeconds,
} as const;

/** Time in seconds after which Kafka begins a new segment. It is short, because Kafka removes only whole segments. */
export const limitTopicSegmentSeconds = 600;

export const limitRecordBytesMax = 128 * 1024;

/** Numbers of tokens and turns that one replica has completed for a subject in a period. */
export type CounterEntry = readonly [subject: string, period: string, tokens: number, turns: number];

/** Cumulative sums of one replica. If two records contain the same subject and period, the larger numbers count. */
export interface CounterRecord {
  readonly v: 1;
  /** Id of the data folder whose gateway completed the requests, or `rows`. */
  readonly replica: string;
  /** Process that counted the entries, even if another process republishes them. */
  readonly process: string;
  /** Name of the replica's gateway, for people to read. */
  readonly name?: string;
  /** Time of publication by the publisher's clock, in ms since 1970. Use it only to compute ages. */
  readonly at: number;
  readonly entries: readonly CounterEntry[];
  /** Gaps that control planes found in the usage rows. The gateway that has the missing rows resends them from `next` on. */
  readonly gaps?: readonly UsageGapEntry[];
}

export type UsageGapEntry = readonly [incarnation: string, next: number];

export const counterEntriesMax = 500;
/** Replica name with which control planes request missing usage rows, and a restore publishes totals for lost counters. */
export const rowsReplica = 'rows';
/** Subject for all visitors, counted per UTC day. No organisation has this id, because ids cannot contain a colon. */
export const visitorsSubject = 'visitors:all';
/** Prefix of the subject of a single visitor, counted per UTC month. */
export const visitorPrefix = 'visitor:';

const idPattern = /^[A-Za-z0-9-]{4,64}$/;
const subjectPattern = /^[a-z0-9:-]{1,100}$/;
/** Period of a counter: an organisation's first day, a UTC day or a UTC month. */
const periodPattern = /^\d{4}-(?:0[1-9]|1[0-2])(?:-(?:0[1-9]|[12]\d|3[01]))?$/;

/** Parses a counter record whose HMAC has been verified. Returns undefined if the record is invalid. Never throws. */
export function readCounterRecord(raw: Uint8Array): CounterRecord | undefined {
  const record = parsedObject(raw);
  if (record === undefined) return undefined;
  const { v, replica, process, name, at, entries } = record;
  if (v !== 1 || !isText(replica, idPattern) || !isText(process, idPattern)) return undefined;
  if (!Number.isSafeInteger(at) || (name !== undefined && !isText(name, namePattern))) return undefined;
  if (!Array.isArray(entries) || entries.length > counterEntriesMax || !entries.every(isEntry))
    return undefined;
  const gaps = Array.isArray(record['gaps']) ? record['gaps'].filter(isGap).slice(0, counterEntriesMax) : [];
  return {
    v,
    replica,
    process,
    at: at as number,
    entries,
    ...(name === undefined ? {} : { name }),
    ...(gaps.length === 0 ? {} : { gaps }),
  };
}

const namePattern = /^[^\p{Cc}]{1,200}$/u;

function parsedObject(raw: Uint8Array): Record<string, unknown> | undefined {
  try {
    const text = Buffer.from(raw.buffer, raw.byteOffset, raw.byteLength).toString('utf8');
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

function isText(value: unknown, pattern: RegExp): value is string {
  return typeof value === 'string' && pattern.test(value);
}

function isEntry(value: unknown): value is CounterEntry {
  if (!Array.isArray(value) || value.length !== 4) return false;
  // The entry is read by index, which is faster, because this function runs for each entry of each record in the fleet.
  const list = value as unknown[];
  return isText(list[0], subjectPattern) && isPeriod(list[1]) && isCount(list[2]) && isCount(list[3]);
}

/** Last valid period. It is cached because most entries of a record have the same period. */
let lastPeriod = '';

function isPeriod(value: unknown): boolean {
  if (value === lastPeriod) return true;
  if (!isText(value, periodPattern)) return false;
  lastPeriod = value;
  return true;
}

function isGap(value: unknown): value is UsageGapEntry {
  if (!Array.isArray(value) || value.length !== 2) return false;
  const [incarnation, next] = value as unknown[];
  return isText(incarnation, idPattern) && Number.isSafeInteger(next) && (next as number) > 0;
}

/** Maximum value of a counter. With this bound, sums over 10 000 replicas remain exact numbers. */
const countMax = 500_000_000_000;

function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= countMax;
}
