/**
 * Usage rows, one per completed request, which gateways write to the usage log. The gateway process that served the request
 * numbers its rows without gaps. One log record is a JSON array of consecutive rows of one incarnation. Writers are strict
 * and readers are tolerant: `incarnation` and `n` mean the same in every version, so a reader can skip the row of a later
 * version and keep the order.
 */
import { z } from 'zod';
import { daySeconds } from '../durations.ts';
import { daySchema, idSchema, modelIdSchema, momentSchema, stackIdSchema } from '../names.ts';

export const usageTopic = 'headgate.usage';
export const usagePartitions = 12;
/** Default number of days for which a control plane keeps each completed request. It equals the topic's retention. */
export const usageKeepDaysDefault = 35;
/** Retention of the usage topic in seconds. It is 35 days, so it exceeds the longest billing period. */
export const usageKeepSeconds = usageKeepDaysDefault * daySeconds;
export const usageRecordRowsMax = 500;
/** Maximum number of tokens of one kind in one row, so that sums of rows remain exact numbers. */
export const usageTokensMax = 1_000_000_000;

/** Capacity that served the request. Only `pool` counts against the organisation's allowance. */
const capacitySchema = z.enum(['pool', 'stack', 'own']);
const millisecondsSchema = z.int().min(0).max(1_000_000_000);
const tokensSchema = z.int().min(0).max(usageTokensMax);

const envelope = { incarnation: z.uuid(), n: z.int().min(1).max(Number.MAX_SAFE_INTEGER) };
const shape = {
  v: z.literal(1),
  ...envelope,
  /** Time at which the request was completed, by the log's clock as far as the gateway knows it. */
  at: momentSchema,
  /** Organisation that sent the request, or null for an anonymous visitor. */
  organisation: idSchema.nullable(),
  visitor: idSchema.optional(),
  /** First day of the billing period that contains `at`. It is stored, because the organisation's anchor may change later. */
  period: daySchema.nullable(),
  draw: capacitySchema,
  model: modelIdSchema,
  promptTokens: tokensSchema,
  completionTokens: tokensSchema,
  stack: stackIdSchema.optional(),
  /** Id of the data folder whose gateway counted the request. */
  replica: z.uuid().optional(),
  key: idSchema.optional(),
  /** Times in ms from accepting the request to the first byte and to the end of the response. */
  ttftMs: millisecondsSchema.optional(),
  durationMs: millisecondsSchema.optional(),
  /** Keyed hash of the visitor's network. Only visitors' rows contain it. */
  network: idSchema.optional(),
  /** Set if the node reported no token counts, so that they were estimated from the numbers of bytes. */
  estimated: z.literal(true).optional(),
  requestId: z
    .string()
    .regex(/^[\x21-\x7e]+$/, 'must be printable')
    .max(100),
};

interface RowOwner {
  readonly organisation: string | null;
  readonly visitor?: string | undefined;
  readonly period: string | null;
  readonly draw: string;
}
/** Checks that a row belongs either to an organisation's period or to a visitor, who can use only the pool. */
function hasOneOwner({ organisation, visitor, period, draw }: RowOwner): boolean {
  if (visitor === undefined) return organisation !== null && period !== null;
  return organisation === null && period === null && draw === 'pool';
}

export const usageRowSchema = z.strictObject(shape).refine(hasOneOwner, 'must have one owner');
/** Line of the usage export, which contains the row and the name that the key had at the time of the export. */
export const usageLineSchema = z
  .strictObject({ ...shape, keyName: z.string().optional() })
  .refine(hasOneOwner, 'must have one owner');
const readerSchema = z.object(shape).refine(hasOneOwner);
const envelopeSchema = z.object({ v: z.int().min(1), ...envelope });

export type Capacity = z.infer<typeof capacitySchema>;
export type UsageRow = z.infer<typeof usageRowSchema>;
export type UsageLine = z.infer<typeof usageLineSchema>;

/** Usage row as a reader found it in a record. */
export interface ReadUsageRow {
  readonly incarnation: string;
  readonly n: number;
  /** JSON text of the row, over which the row's hash is computed. */
  readonly text: string;
  /** Parsed row. Absent if this build does not know the row's version. */
  readonly row?: UsageRow;
}

/** Parses one row of a record. Returns undefined if it is invalid. Never throws. */
export function readUsageRow(value: unknown): ReadUsageRow | undefined {
  const { data: row } = readerSchema.safeParse(value);
  const { data: head } = row === undefined ? envelopeSchema.safeParse(value) : { data: row };
  if (head === undefined || (row === undefined && head.v === 1)) return undefined;
  const { incarnation, n } = head;
  const text = trySerialise(value);
  if (text === undefined) return undefined;
  return row === undefined ? { incarnation, n, text } : { incarnation, n, text, row };
}

/**
 * Parses a row that was stored as JSON. Returns undefined if the row is no longer valid. Never throws. Checks only the fields
 * that readers rely on, because an earlier version may have accepted other names.
 */
export function readKeptRow(body: string): UsageRow | undefined {
  try {
    const row = JSON.parse(body) as UsageRow | null;
    return row !== null && isKept(row) ? row : undefined;
  } catch {
    return undefined;
  }
}

function isKept({
  at,
  organisation,
  key = '',
  draw,
  model,
  promptTokens,
  completionTokens,
}: UsageRow): boolean {
  return (
    [at, organisation ?? '', key, draw, model].every((text) => typeof text === 'string') &&
    Number.isFinite(Date.parse(at)) &&
    Number.isSafeInteger(promptTokens) &&
    Number.isSafeInteger(completionTokens)
  );
}

/** Serialises a value as JSON. Returns undefined if the value is nested too deeply. */
function trySerialise(value: unknown): string | undefined {
  try {
    return JSON.stringify(value);
  } catch {
    return undefined;
  }
}

export interface ReadUsageRecord {
  readonly rows: readonly ReadUsageRow[];
  /** Number of entries in the record that are not valid rows. */
  readonly junk: number;
}

/** Parses the rows in the raw bytes of a record. Never throws. */
export function readUsageRecord(raw: Uint8Array): ReadUsageRecord {
  let values: unknown;
  try {
    values = JSON.parse(Buffer.from(raw.buffer, raw.byteOffset, raw.byteLength).toString('utf8'));
  } catch {
    return { rows: [], junk: 1 };
  }
  if (!Array.isArray(values)) return { rows: [], junk: 1 };
  const rows = values.map(readUsageRow).filter((row) => row !== undefined);
  return { rows, junk: values.length - rows.length };
}

/** Returns the partition for an incarnation's rows. It never changes, so that the rows of an incarnation stay in order. */
export function usagePartition(incarnation: string, partitions: number): number {
  return Number.parseInt(incarnation.slice(0, 8), 16) % partitions;
}
