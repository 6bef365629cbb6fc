import { daySeconds } from '../durations.ts';
/**
 * What gateways exchange so that limits hold over the whole fleet: two topics of small cumulative records, `headgate.gauges`
 * (requests per minute, weight in flight) and `headgate.counters` (tokens, turns). A record that is lost, late or doubled
 * does no harm once a later one arrives. Neither topic is part of a digest.
 */

export const gaugesTopic = 'headgate.gauges';
export const countersTopic = 'headgate.counters';
export type LimitTopicName = typeof gaugesTopic | typeof countersTopic;

/** How long a record is kept, seconds. */
export const limitTopicKeepSeconds = {
  [gaugesTopic]: 3600,
  [countersTopic]: daySeconds,
} as const;

/** How long a segment is written on Kafka, seconds: only whole segments are removed. */
export const limitTopicSegmentSeconds = 600;

/** A record of either topic has at most so many bytes. */
export const limitRecordBytesMax = 128 * 1024;

/** Tokens and requests that a replica completed for a subject in a period: [subject, period, tokens, turns]. */
export type CounterEntry = readonly [subject: string, period: string, tokens: number, turns: number];

/** Cumulative: of two records about one replica, subject and period the larger numbers count. */
export interface CounterRecord {
  readonly v: 1;
  /** The data folder whose gateway completed the requests, or `rows`. */
  readonly replica: string;
  /** The process that counted, also where another one publishes its entries again. */
  readonly process: string;
  /** Name of the gateway, for people. */
  readonly name?: string;
  /** When the process published them, ms since 1970 on its clock: for ages only. */
  readonly at: number;
  readonly entries: readonly CounterEntry[];
  /** Of a control plane: usage rows that are missing on the usage log, from `next` on; who has them ships them again. */
  readonly gaps?: readonly UsageGapEntry[];
}

export type UsageGapEntry = readonly [incarnation: string, next: number];

export const counterEntriesMax = 500;
/** The replica in whose name control planes ask for missing rows, and a restore lets totals stand for lost counters. */
export const rowsReplica = 'rows';
/** The subject of all visitors together, whose period is a UTC day. No organisation's id has a colon. */
export const visitorsSubject = 'visitors:all';
/** The subjects of single visitors, whose period is a UTC month. */
export const visitorPrefix = 'visitor:';

const idPattern = /^[A-Za-z0-9-]{4,64}$/;
const subjectPattern = /^[a-z0-9:-]{1,100}$/;
/** An organisation's period by its first day, a day, or a month. */
const periodPattern = /^\d{4}-(?:0[1-9]|1[0-2])(?:-(?:0[1-9]|[12]\d|3[01]))?$/;

/** The record in raw bytes that passed their HMAC; undefined where it is none. Total: never throws. */
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
  // By index: this runs for each entry of each record of the fleet.
  const list = value as unknown[];
  return isText(list[0], subjectPattern) && isPeriod(list[1]) && isCount(list[2]) && isCount(list[3]);
}

/** Most entries of a record have one period. */
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

/** Sums of 10 000 replicas remain exact numbers. */
const countMax = 500_000_000_000;

function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= countMax;
}
