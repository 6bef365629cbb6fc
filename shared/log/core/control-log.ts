/**
 * The interface to an ordered log: one topic, one partition. All adapters (embedded, Kafka, and memory in tests) pass
 * test/contract/control-log.ts. No other code may know which adapter is in use.
 *
 * Every adapter promises:
 * - An acknowledged record is durable, and every tail sees it once, in the same order.
 * - A tail never skips a record. If it cannot deliver one, it reports an error.
 * - Offsets increase, possibly with gaps.
 */

export interface LogRecord {
  /** Position of the record. Larger than every offset before it. */
  readonly offset: number;
  readonly value: Buffer;
  /** Ed25519 signature over `value`, stored with the record; null if the writer does not sign. */
  readonly signature: Buffer | null;
  /** Append time in ms since 1970, by the broker's clock or, for an embedded log, by the machine's. */
  readonly atMs?: number;
}

export interface LogBatch {
  /** New records. Empty if the batch only advances the reader's offset. */
  readonly records: readonly LogRecord[];
  /** Offset at which to continue after these records. */
  readonly nextOffset: number;
}

export interface TailOptions {
  /** First offset to read; 0 reads everything. */
  readonly from: number;
  readonly signal?: AbortSignal;
  /** Maximum records per batch. */
  readonly recordsMax?: number;
  /** Maximum value bytes per batch. A batch always contains at least one record. */
  readonly bytesMax?: number;
  /** Called after every read of the log, even if there was no new record. */
  readonly onRead?: () => void;
}

/** A topic whose settings are wrong. */
export interface TopicFault {
  readonly topic: string;
  readonly text: string;
  /** Command that fixes the settings. */
  readonly next: string;
}

/** Report of the brokers about themselves and the service's topics. */
export interface LogInspection {
  readonly faults: readonly TopicFault[];
  /** Replicas of the partition with the fewest. Missing if no topic has been created yet. */
  readonly replicas?: number;
  /** Release of the oldest broker, as far as the protocol shows it, such as 3.9. 0 means older than 2.1. */
  readonly oldestBroker?: number;
}

/** Cause that makes a record batch unreadable for every reader. */
export type UnreadableCause = 'compressed' | 'old_format' | 'too_large' | 'too_many_records' | 'malformed';

/** State of this process's reading of a topic. */
export interface TopicReading {
  readonly topic: string;
  /** Number of undecodable record batches since the process started. */
  readonly skipped: number;
  readonly lastSkipped?: {
    readonly partition: number;
    readonly offset: number;
    readonly cause: UnreadableCause;
  };
  /** The current failure, if the topic cannot be read. `isReached` means that the brokers do answer. */
  readonly failing?: { readonly seconds: number; readonly reason: string; readonly isReached: boolean };
}

export interface ControlLog {
  /**
   * Whether several brokers held the log at the last `end` call. If so, an end alone proves little, because this process may
   * be cut off from the others. Missing if one process or broker holds the log.
   */
  readonly isReplicated?: boolean;
  /** Appends a record; resolves with its offset once durable. Rejects with AppendUnknown, LogUnavailable or LogReplaced. */
  append(value: Uint8Array, signature?: Uint8Array | null): Promise<number>;
  /** Yields batches endlessly, until `signal` aborts or the log closes. Throws LogUnavailable, LogTruncated, LogReplaced. */
  tail(options: TailOptions): AsyncIterable<LogBatch>;
  /** Requests the end: every append acknowledged before is below it. Throws LogUnavailable or LogReplaced. */
  end(): Promise<number>;
  /** Queries the brokers. Throws LogUnavailable. Missing if there are no brokers. */
  inspect?(): Promise<LogInspection>;
  /** Readings of all topics at this address. Missing if there are no brokers. */
  readings?(): readonly TopicReading[];
  /** Reason why records cannot be written although they can be read, such as a full disk. */
  readonly writeFault?: string | undefined;
  /** Reason why changed settings files cannot be used. Their previous content applies until then. */
  readonly settingsFault?: string | undefined;
  /** Releases all resources within a few seconds. Idempotent. */
  close(): Promise<void>;
}

/** A log whose records have timestamps: from the machine of an embedded log, otherwise from the broker or the writer. */
export interface TimedLog extends ControlLog {
  /** Returns the offset of the first record at or after this time (ms since 1970), or the end. Throws what `end` throws. */
  offsetAt(atMs: number): Promise<number>;
}

export interface TopicAddress {
  readonly topic: string;
  readonly partition?: number;
}

/** Thrown if the log cannot be reached now. This call has not written anything, and a retry may succeed later. */
export class LogUnavailable extends Error {
  override readonly name = 'LogUnavailable';
}

/** Thrown if the log answers but cannot be read. A retry fails until the cause is removed. */
export class LogUnreadable extends LogUnavailable {}

/** Thrown if an append was sent but not answered. The record may be in the log, now or later. */
export class AppendUnknown extends Error {
  override readonly name = 'AppendUnknown';
}

/** Next step if the control log's first records are missing. Commands of earlier versions removed them on purpose. */
export const nextStepForCutLog =
  'if headgate log archive of an earlier version removed them, stop all processes, run headgate backup ARCHIVE --data DATA, ' +
  'move the control log away, and write it again with headgate backup restore ARCHIVE --log LOG --data NEW_DATA ' +
  '(docs/backup.md, "A log that was cut")';

/** Thrown if the records at the requested offset are gone: the log was truncated, or trimmed past the reader. */
export class LogTruncated extends Error {
  override readonly name = 'LogTruncated';
}

/** Thrown if the log under this name is not the one that was opened, because its file or topic was replaced. */
export class LogReplaced extends Error {
  override readonly name = 'LogReplaced';
}
