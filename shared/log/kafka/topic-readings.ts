/** How this process reads each topic: since when it cannot, why, and what it skipped. Bounded by the number of partitions. */
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
  /** By topic, then by partition. */
  readonly #topics = new Map<string, Map<number, Reading>>();

  /** The partition answers, with records or without. */
  succeeded(target: TopicPartition): void {
    this.#of(target).failure = undefined;
  }

  /** What was removed or replaced can be read: its readers begin again, or stop with that error. */
  failed(target: TopicPartition, error: unknown): void {
    if (!(error instanceof LogUnavailable) || error instanceof LogTruncated) return;
    const reading = this.#of(target);
    reading.failure = { sinceMs: reading.failure?.sinceMs ?? performance.now(), error };
  }

  /** Counts each once, although several readers of a process may come by. */
  skipped(target: TopicPartition, { nextOffset, unreadable: cause }: RecordBatch): void {
    const reading = this.#of(target);
    const offset = nextOffset - 1;
    if (cause === undefined || offset <= (reading.lastSkipped?.offset ?? -1)) return;
    reading.skipped++;
    reading.lastSkipped = { offset, cause };
  }

  /** One for each topic that was read. */
  all(): TopicReading[] {
    return [...this.#topics].map(([topic, partitions]) => {
      const readings = [...partitions].map(([partition, reading]) => ({ partition, ...reading }));
      const failing = readings.find(({ failure }) => failure !== undefined)?.failure;
      const last = readings.findLast(({ lastSkipped }) => lastSkipped !== undefined);
      return {
        topic,
        skipped: readings.reduce((sum, { skipped }) => sum + skipped, 0),
        ...(last?.lastSkipped && { lastSkipped: { partition: last.partition, ...last.lastSkipped } }),
        ...(failing && { failing: failureOf(failing) }),
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

function failureOf({ sinceMs, error }: Failure): NonNullable<TopicReading['failing']> {
  const seconds = (performance.now() - sinceMs) / 1000;
  return { seconds, reason: error.message, isReached: error instanceof LogUnreadable };
}
