/**
 * Keeps the fold's position in each partition of the usage log. Only records with a MAC made with the gateway token count.
 * The fold continues after a refused record but remembers its offset. The next process, which may have the right token,
 * starts reading there.
 */
import type { LogRecord } from '../../shared/log/core/control-log.ts';
import {
  addRefused,
  checkMac,
  type MacRefusal,
  type RecordMac,
  type RefusedRecords,
} from '../../shared/log/core/record-mac.ts';
import type { UsageStatements } from './usage-tables.ts';

export interface UsageAuthenticity {
  /** Checks the MACs of records. If it is absent, no record counts. */
  readonly mac?: RecordMac;
}

export interface PartitionState {
  readonly nextOffset: number;
  /** Whether the log no longer contains its first records. */
  readonly trimmed: boolean;
  /** Offset of the first refused record, or null if no record was refused. */
  readonly refusedFrom: number | null;
}

export const beginning: PartitionState = { nextOffset: 0, trimmed: false, refusedFrom: null };

/** Returns the state in which a new process starts reading a partition: at the first refused record, if there is one. */
export function begun(state: PartitionState): PartitionState {
  const nextOffset = Math.min(state.nextOffset, state.refusedFrom ?? state.nextOffset);
  return { ...state, nextOffset, refusedFrom: null };
}

/** Returns the partition's state after the given record. */
export function after(
  state: PartitionState,
  { offset }: LogRecord,
  refusal: MacRefusal | undefined,
): PartitionState {
  const { nextOffset, trimmed, refusedFrom } = state;
  return {
    nextOffset: offset + 1,
    trimmed: trimmed || offset > nextOffset,
    refusedFrom: refusedFrom ?? (refusal === undefined ? null : offset),
  };
}

export class UsagePartitions {
  readonly #sql: UsageStatements;
  readonly #options: UsageAuthenticity;
  readonly #states = new Map<number, PartitionState>();
  readonly #refused = new Map<number, RefusedRecords>();

  constructor(sql: UsageStatements, options: UsageAuthenticity) {
    this.#sql = sql;
    this.#options = options;
    for (const { partition, next_offset, trimmed } of sql.positions.iterate())
      this.#states.set(partition, { ...beginning, nextOffset: next_offset, trimmed: trimmed === 1 });
    for (const { partition, refused_from: refusedFrom } of sql.authenticity.iterate())
      this.#states.set(partition, { ...this.get(partition), refusedFrom });
  }

  get(partition: number): PartitionState {
    return this.#states.get(partition) ?? beginning;
  }

  get refused(): readonly RefusedRecords[] {
    return [...this.#refused.values()];
  }

  refusalOf(record: LogRecord): MacRefusal | undefined {
    return checkMac(record, this.#options.mac);
  }

  /** Writes a partition's state in the caller's transaction. After its success, call `set` to keep the state in memory. */
  write(partition: number, state: PartitionState): void {
    const { nextOffset, trimmed, refusedFrom } = state;
    this.#sql.setPosition.run(partition, nextOffset, trimmed ? 1 : 0);
    if (refusedFrom !== this.get(partition).refusedFrom)
      this.#sql.setAuthenticity.run(partition, refusedFrom);
  }

  set(partition: number, state: PartitionState): void {
    this.#states.set(partition, state);
  }

  noteRefused(partition: number, offsets: readonly number[]): void {
    for (const offset of offsets)
      this.#refused.set(partition, addRefused(this.#refused.get(partition), offset));
  }
}
