/**
 * The one interface to an ordered log: one topic, one partition.
 * adapters (embedded, Kafka; in tests, memory) all pass test/contract/control-log.ts; nothing else may know which one runs.
 *
 * Promises of every adapter:
 *  - a record whose append was acknowledged is durable and is seen by every tail, once, in one order for all;
 *  - a tail never skips a record: what it cannot deliver it reports as an error;
 *  - offsets grow, and may have holes.
 */

export interface LogRecord {
  /** Where the record stands; larger than every offset before it. */
  readonly offset: number;
  readonly value: Buffer;
  /** Ed25519 signature over `value`, where the writer signs; travels beside the record. */
  readonly signature: Buffer | null;
}

export interface LogBatch {
  /** May be empty: a batch also tells how far the reader is. */
  readonly records: readonly LogRecord[];
  /** Where to go on reading after these records. */
  readonly nextOffset: number;
}

export interface TailOptions {
  /** The first offset wanted; 0 for all. */
  readonly from: number;
  readonly signal?: AbortSignal;
  /** Records in one batch at most. */
  readonly recordsMax?: number;
  /** Bytes of values in one batch at most, but always at least one record. */
  readonly bytesMax?: number;
}

export interface ControlLog {
  /**
   * Whether several brokers hold the log, as far as `end` has shown. An end then proves little to a process that the
   * other brokers no longer hear: it also has to know that its own writes are acknowledged. Absent: the log has one holder.
   */
  readonly isReplicated?: boolean;
  /** Appends one record and gives its offset once it is durable. Rejects with AppendUnknown, LogUnavailable or LogReplaced. */
  append(value: Uint8Array, signature?: Uint8Array | null): Promise<number>;
  /** Yields batches for ever, waiting for new records; ends when `signal` aborts or the log is closed. Throws LogUnavailable, LogTruncated or LogReplaced. */
  tail(options: TailOptions): AsyncIterable<LogBatch>;
  /** The offset behind the last record, asked for now: every append acknowledged before this call is below it. Throws LogUnavailable or LogReplaced. */
  end(): Promise<number>;
  /** Releases everything within a few seconds at most. Idempotent. */
  close(): Promise<void>;
}

/** Opens the log of one topic. */
export interface TopicAddress {
  readonly topic: string;
  readonly partition?: number;
}

/** The log cannot be reached now; nothing was written by this call. Trying again later may help. */
export class LogUnavailable extends Error {
  override readonly name = 'LogUnavailable';
}

/** An append was sent and no answer came: it may be in the log, now or later. */
export class AppendUnknown extends Error {
  override readonly name = 'AppendUnknown';
}

/** The records at the wanted offset are gone: the log was truncated or trimmed past the reader. */
export class LogTruncated extends Error {
  override readonly name = 'LogTruncated';
}

/** The log under this name is not the one that was opened: file or topic was replaced. */
export class LogReplaced extends Error {
  override readonly name = 'LogReplaced';
}
