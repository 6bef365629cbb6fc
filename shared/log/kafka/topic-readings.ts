/** Records how this process reads each topic: since when and why reading fails, and which batches were skipped. */
import {
  LogTruncated,
  LogUnavailable,
  LogUnreadable,
  type TopicReading,
  type UnreadableCause,
} from '../core/control-log.ts';
import type { TopicPartition } from './connection.ts';
import type { RecordBatch } from './record-batches.ts';

interface Failure {
  readonly sinceMs: number;
  readonly error: LogUnavailable;
}

interface Reading {
  failure?: Failure | undefined;
  skipped: number;
  lastSkipped?: { readonly offset: number; readonly cause: UnreadableCause };
}

export class TopicReadings {
  /** Reading states by topic, then by partition. */
  readonly #topics = new Map<string, Map<number, Reading>>();

  /** Records that reading the partition succeeded, with or without records. */
  succeeded(target: TopicPartition): void {
    this.#of(target).failure = undefined;
  }

  /** Records a failure. A truncated or replaced log is not one, because its readers start again or stop with the error. */
  failed(target: TopicPartition, error: unknown): void {
    if (!(error instanceof LogUnavailable) || error instanceof LogTruncated) return;
    const reading = this.#of(target);
    reading.failure = { sinceMs: reading.failure?.sinceMs ?? performance.now(), error };
  }

  /** Counts a skipped batch. A batch counts once, even if several readers in this process skip it. */
  skipped(target: TopicPartition, { nextOffset, unreadable: cause }: RecordBatch): void {
    const reading = this.#of(target);
    const offset = nextOffset - 1;
    if (cause === undefined || offset <= (reading.lastSkipped?.offset ?? -1)) return;
    reading.skipped++;
    reading.lastSkipped = { offset, cause };
  }

  /** Returns one reading state for each topic that this process has read. */
  all(): TopicReading[] {
    return [...this.#topics].map(([topic, partitions]) => {
      const readings = [...partitions].map(([partition, reading]) => ({ partition, ...reading }));
      const failing = readings.find(({ failure }) => failure !== undefined)?.failure;
      const last = readings.findLast(({ lastSkipped }) => lastSkipped !== undefined);
      return {
        topic,
        skipped: readings.reduce((sum, { skipped }) => sum + skipped, 0),
        ...(last?.lastSkipped && { lastSkipped: { partition: last.partition, ...last.lastSkipped } }),
        ...(failing && { failing: describeFailure(failing) }),
      };
    });
  }

  #of({ topic, partition }: TopicPartition): Reading {
    const partitions = this.#topics.get(topic) ?? new Map<number, Reading>();
    this.#topics.set(topic, partitions);
    const reading = partitions.get(partition) ?? { skipped: 0 };
    partitions.set(partition, reading);
    return reading;
  }
}

function describeFailure({ sinceMs, error }: Failure): NonNullable<TopicReading['failing']> {
  const seconds = (performance.now() - sinceMs) / 1000;
  return { seconds, reason: error.message, isReached: error instanceof LogUnreadable };
}
