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
  /** The position of the record; larger than every offset before it. */
  readonly offset: number;
  readonly value: Buffer;
  /** Ed25519 signature over `value`, where the writer signs; stored with the record. */
  readonly signature: Buffer | null;
  /** When it was appended, ms since 1970: by the clock of the broker, or of the machine of an embedded log. */
  readonly atMs?: number;
}

export interface LogBatch {
  /** May be empty: a batch also advances the reader's offset. */
  readonly records: readonly LogRecord[];
  /** The offset to continue at after these records. */
  readonly nextOffset: number;
}

export interface TailOptions {
  /** The first offset to read; 0 for all. */
  readonly from: number;
  readonly signal?: AbortSignal;
  /** Records in one batch at most. */
  readonly recordsMax?: number;
  /** Bytes of values in one batch at most, but always at least one record. */
  readonly bytesMax?: number;
  /** Called each time that the log was read, also where it has no new record. */
  readonly onRead?: () => void;
}

/** A topic that is not set as it must be. */
export interface TopicFault {
  readonly topic: string;
  readonly text: string;
  /** The command that fixes it. */
  readonly next: string;
}

/** What brokers report of themselves and of the topics of the service. */
export interface LogInspection {
  readonly faults: readonly TopicFault[];
  /** Of the partition with the fewest; left out where no topic is made yet. */
  readonly replicas?: number;
  /** Release of the oldest one, as far as its protocol shows it, such as 3.9; 0: older than 2.1. */
  readonly oldestBroker?: number;
}

/** Why no reader decodes a batch of records. */
export type UnreadableCause = 'compressed' | 'old_format' | 'too_large' | 'too_many_records' | 'malformed';

/** How this process reads a topic. */
export interface TopicReading {
  readonly topic: string;
  /** Batches of records that no reader decodes, since the start. */
  readonly skipped: number;
  readonly lastSkipped?: {
    readonly partition: number;
    readonly offset: number;
    readonly cause: UnreadableCause;
  };
  /** It cannot be read; `isReached`: although the brokers answer. */
  readonly failing?: { readonly seconds: number; readonly reason: string; readonly isReached: boolean };
}

export interface ControlLog {
  /**
   * Whether several brokers hold the log, as of the last `end`. An end then proves little to a process that is cut off from
   * the other brokers: its own writes must be acknowledged, too. Absent: one process or broker holds the log.
   */
  readonly isReplicated?: boolean;
  /** Appends one record and gives its offset once it is durable. Rejects with AppendUnknown, LogUnavailable or LogReplaced. */
  append(value: Uint8Array, signature?: Uint8Array | null): Promise<number>;
  /** Yields batches without end, waiting for new records; returns when `signal` aborts or the log is closed. Throws LogUnavailable, LogTruncated or LogReplaced. */
  tail(options: TailOptions): AsyncIterable<LogBatch>;
  /** The offset after the last record, requested now: every append acknowledged before this call is below it. Throws LogUnavailable or LogReplaced. */
  end(): Promise<number>;
  /** Asks the brokers now. Throws LogUnavailable. Absent: there are none. */
  inspect?(): Promise<LogInspection>;
  /** Of all topics at this address. Absent: there are no brokers. */
  readings?(): readonly TopicReading[];
  /** Why records cannot be written, such as a full disk, although they can be read; undefined where nothing says so. */
  readonly writeFault?: string | undefined;
  /** Why files of its settings cannot be used since they changed; what they held before is. Absent: there are none. */
  readonly settingsFault?: string | undefined;
  /** Releases everything within a few seconds at most. Idempotent. */
  close(): Promise<void>;
}

/** A log whose records have times: those of the machine of an embedded log, else those of the broker or the writer. */
export interface TimedLog extends ControlLog {
  /** The offset of the first record from this time (ms since 1970) on; where there is none, the end. Throws what `end` throws. */
  offsetAt(atMs: number): Promise<number>;
}

/** Opens the log of one topic. */
export interface TopicAddress {
  readonly topic: string;
  readonly partition?: number;
}

/** The log cannot be reached now; nothing was written by this call. A retry may succeed later. */
export class LogUnavailable extends Error {
  override readonly name = 'LogUnavailable';
}

/** The log answers, and cannot be read: a retry succeeds only once the cause is removed. */
export class LogUnreadable extends LogUnavailable {}

/** An append was sent and got no response: it may be in the log, now or later. */
export class AppendUnknown extends Error {
  override readonly name = 'AppendUnknown';
}

/** Next step if the first records of the control log are missing. Commands of earlier versions removed them on purpose. */
export const cutLogNext =
  'if headgate log archive of an earlier version removed them, stop all processes, run headgate backup ARCHIVE --data DATA, ' +
  'move the control log away, and write it again with headgate backup restore ARCHIVE --log LOG --data NEW_DATA ' +
  '(docs/operate.md, "A log that was cut")';

/** The records at the requested offset were removed: the log was truncated or trimmed past the reader. */
export class LogTruncated extends Error {
  override readonly name = 'LogTruncated';
}

/** The log under this name is not the one that was opened: file or topic was replaced. */
export class LogReplaced extends Error {
  override readonly name = 'LogReplaced';
}
