/**
 * Interface to an ordered log, which is one partition of one topic. All adapters (embedded, Kafka, and in-memory for tests)
 * must pass `test/contract/control-log.ts`. No other code may depend on which adapter is in use.
 *
 * Every adapter promises:
 * - An acknowledged record is durable, and every tail sees it once, in the same order.
 * - A tail never skips a record. If it cannot deliver one, it reports an error.
 * - Offsets increase, possibly with gaps.
 */

export interface LogRecord {
  /** Position of the record in the log. Larger than the offsets of all earlier records. */
  readonly offset: number;
  readonly value: Buffer;
  /** Ed25519 signature of `value`, stored with the record. null if the writer does not sign records. */
  readonly signature: Buffer | null;
  /** Time when the record was appended, in ms since 1970, by the broker's clock or, in an embedded log, the machine's. */
  readonly atMs?: number;
}

export interface LogBatch {
  /** New records. Empty if the batch only moves the reader's offset forward. */
  readonly records: readonly LogRecord[];
  /** Offset at which a reader continues after this batch. */
  readonly nextOffset: number;
}

export interface TailOptions {
  /** Offset at which to start reading. 0 reads the whole log. */
  readonly from: number;
  readonly signal?: AbortSignal;
  readonly recordsMax?: number;
  /** Maximum total size of the values in a batch, in bytes. A batch always contains at least one record. */
  readonly bytesMax?: number;
  /** Called after every read of the log, even if it returned no records. */
  readonly onRead?: () => void;
}

export interface TopicFault {
  readonly topic: string;
  readonly text: string;
  /** Command that corrects the topic's settings. */
  readonly next: string;
}

/** Facts that the brokers report about themselves and about the service's topics. */
export interface LogInspection {
  readonly faults: readonly TopicFault[];
  /** Smallest number of replicas of any partition. Missing if no topic exists yet. */
  readonly replicas?: number;
  /** Release of the oldest broker, such as 3.9, as far as the protocol reveals it. 0 means older than 2.1. */
  readonly oldestBroker?: number;
}

/** Reason why no reader can read a record batch. */
export type UnreadableCause = 'compressed' | 'old_format' | 'too_large' | 'too_many_records' | 'malformed';

/** State of this process's reading of a topic. */
export interface TopicReading {
  readonly topic: string;
  /** Number of unreadable record batches skipped since the process started. */
  readonly skipped: number;
  readonly lastSkipped?: {
    readonly partition: number;
    readonly offset: number;
    readonly cause: UnreadableCause;
  };
  /** Present failure to read the topic, if any. `isReached` means that the brokers respond nevertheless. */
  readonly failing?: { readonly seconds: number; readonly reason: string; readonly isReached: boolean };
}

export interface ControlLog {
  /**
   * Whether several brokers held the log at the last call of `end`. If so, the end that one broker reports proves little,
   * because this process may be cut off from the other brokers. Missing if only one process or broker holds the log.
   */
  readonly isReplicated?: boolean;
  /**
   * Appends a record. Resolves to its offset once durable. Rejects with `AppendUnknown`, `LogUnavailable` or `LogReplaced`.
   */
  append(value: Uint8Array, signature?: Uint8Array | null): Promise<number>;
  /** Yields batches until `signal` aborts or the log closes. Throws `LogUnavailable`, `LogTruncated` or `LogReplaced`. */
  tail(options: TailOptions): AsyncIterable<LogBatch>;
  /** Returns an offset above every append acknowledged before the call. Rejects with `LogUnavailable` or `LogReplaced`. */
  end(): Promise<number>;
  /** Queries the brokers about their state. Rejects with `LogUnavailable`. Missing if the log has no brokers. */
  inspect?(): Promise<LogInspection>;
  /** Returns the reading state of all topics on these brokers. Missing if the log has no brokers. */
  readings?(): readonly TopicReading[];
  /** Reason why records cannot be written, such as a full disk. Reading may still work. */
  readonly writeFault?: string | undefined;
  /** Reason why changed settings files cannot be used. Until they can be used, their previous content applies. */
  readonly settingsFault?: string | undefined;
  /** Releases all resources, within a few seconds. Further calls have no effect. */
  close(): Promise<void>;
}

/** A log whose records have timestamps. The broker, the writer or the machine of an embedded log sets them. */
export interface TimedLog extends ControlLog {
  /** Returns the offset of the first record at or after this time (ms since 1970), or the end. Throws errors from `end`. */
  offsetAt(atMs: number): Promise<number>;
}

export interface TopicAddress {
  readonly topic: string;
  readonly partition?: number;
}

/** Thrown if the log cannot be reached at present. The call has not written anything, and a later retry may succeed. */
export class LogUnavailable extends Error {
  override readonly name = 'LogUnavailable';
}

/** Thrown if the log responds but cannot be read. Retries fail until someone removes the cause. */
export class LogUnreadable extends LogUnavailable {}

/** Thrown if an append was sent but got no response. The record may be in the log, may appear later, or may be lost. */
export class AppendUnknown extends Error {
  override readonly name = 'AppendUnknown';
}

/** Advice for a control log whose first records are missing. Commands of earlier versions removed them on purpose. */
export const nextStepForCutLog =
  'if headgate log archive of an earlier version removed them, stop all processes, run headgate backup ARCHIVE --data DATA, ' +
  'move the control log away, and write it again with headgate backup restore ARCHIVE --log LOG --data NEW_DATA ' +
  '(docs/backup.md, "A log that was cut")';

/** Thrown if the records at the requested offset are gone, because the log was truncated or old records were deleted. */
export class LogTruncated extends Error {
  override readonly name = 'LogTruncated';
}

/** Thrown if the log is not the one that was opened, because its file or topic was replaced. */
export class LogReplaced extends Error {
  override readonly name = 'LogReplaced';
}
