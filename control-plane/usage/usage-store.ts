/** Folds the usage log into totals in `usage.db`. The file is primary data, because the log does not keep all periods. */
import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import type { UsageTotals } from '../../schemas/admin/admin.ts';
import { hourMs } from '../../schemas/durations.ts';
import {
  type ReadUsageRow,
  readUsageRecord,
  type UsageRow,
  usagePartition,
} from '../../schemas/records/usage.ts';
import type { LogRecord } from '../../shared/log/core/control-log.ts';
import type { RefusedRecords } from '../../shared/log/core/record-mac.ts';
import { BoundedMap } from '../../shared/runtime/bounded-map.ts';
import {
  createTables,
  type Database,
  DatabaseCorrupt,
  mapSqliteError,
  openDatabase,
  shortenWal,
} from '../../shared/runtime/sqlite.ts';
import { billingPeriod } from '../../shared/usage/period.ts';
import { dayFolderOf } from './day-files.ts';
import { type KeptRequest, KeptRows } from './kept-rows.ts';
import { firstHourOfDay, type KeyUse, keyUseOf } from './key-use.ts';
import { dayOfMs } from './move-rows.ts';
import type { RequestQuery } from './request-table.ts';
import { type FoldCounts, foldRow } from './usage-fold.ts';
import {
  after,
  beginning,
  begun,
  type PartitionState,
  type UsageAuthenticity,
  UsagePartitions,
} from './usage-partitions.ts';
import { type KeepOptions, UsageState } from './usage-state.ts';
import { type PoolTotal, prepareUsage, type UsageStatements, usageFormat } from './usage-tables.ts';

/** Maximum number of parked rows per incarnation. */
const parkedMaxDefault = 10_000;
const poolCacheMax = 10_000;
/** Maximum time in ms by which a row's time may be ahead of the log's time. The clocks of brokers differ by less. */
const aheadMsMax = hourMs;
/** Unused bytes that `usage.db` may contain at a start before it is considered for shrinking. */
const emptyBytesMax = 8 * 1024 * 1024;

export interface UsageStoreOptions extends UsageAuthenticity, KeepOptions {
  readonly parkedMax?: number;
  /** Number of partitions of the log. A row counts only in its incarnation's partition, because rows must stay in order. */
  readonly partitions?: number;
}

/** Usage in one period: totals, and the share of each model, sorted by model id. */
export type PeriodUsage = Pick<UsageTotals, 'totalTokens' | 'requests' | 'models'>;

/** Gap in an incarnation's rows: row `next` has not arrived, but later ones have. */
export interface UsageGap {
  readonly incarnation: string;
  readonly next: number;
}
export interface AppliedUsage {
  /** Number of records that were folded completely. The partition's position is now after them. */
  readonly consumed: number;
  readonly rows: readonly UsageRow[];
  /** Gaps in incarnations' rows that these records opened and that are still open. */
  readonly gaps: readonly UsageGap[];
}

/** Opens or creates a store at `path` or `:memory:`. Throws errors from `sqlite.ts`, or an Error for another file format. */
export function openUsageStore(path: string, options: UsageStoreOptions = {}): UsageStore {
  if (path !== ':memory:') mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  try {
    return new UsageStore(openUsageDatabase(path), path, options);
  } catch (error) {
    throw withNextStep(error);
  }
}

/** Adds the next step to an error about damage. Only a person may replace the file, because the log lacks old data. */
function withNextStep(error: unknown): unknown {
  if (!(error instanceof DatabaseCorrupt)) return error;
  const next =
    'move it away and put a backup or the copy of another control plane in its place; see docs/recover.md';
  return new DatabaseCorrupt(`${error.message}; ${next}`, { cause: error });
}

function openUsageDatabase(path: string): Database {
  const db = openDatabase(path, { durability: 'normal' });
  try {
    createTables(db, path, usageFormat);
    giveRoomBack(db);
    return db;
  } catch (error) {
    db.close();
    throw mapSqliteError(error, path);
  }
}

/** Shrinks a large file that is mostly empty because rows were moved. `VACUUM` then copies only the remaining data. */
function giveRoomBack(db: Database): void {
  const numberOf = (name: string): number => Number(db.pragma(name, { simple: true }));
  const [free, pages] = [numberOf('freelist_count'), numberOf('page_count')];
  if (free * numberOf('page_size') <= emptyBytesMax || free <= pages / 2) return;
  db.exec('VACUUM');
  db.pragma('wal_checkpoint(TRUNCATE)');
}

export class UsageStore {
  readonly counts: FoldCounts = {
    applied: 0,
    repeated: 0,
    differing: 0,
    parked: 0,
    lost: 0,
    unread: 0,
    junk: 0,
    unsigned: 0,
    wrong_mac: 0,
  };
  readonly #db: Database;
  readonly #path: string;
  readonly #sql: UsageStatements;
  readonly #options: UsageStoreOptions;
  readonly #begun = new Set<number>();
  readonly #partitions: UsagePartitions;
  readonly rows: KeptRows;
  #parkedCounts = new Map<string, number>();
  /** Number of pool tokens by organisation and period, read when first needed. */
  readonly #poolCache = new BoundedMap<string, number>(poolCacheMax, 'all');

  constructor(db: Database, path: string, options: UsageStoreOptions) {
    this.#db = db;
    this.#path = path;
    this.#options = options;
    this.#sql = prepareUsage(db);
    this.#partitions = new UsagePartitions(this.#sql, options);
    const folder = path === ':memory:' ? undefined : dayFolderOf(path);
    this.rows = new KeptRows({ db, path, folder }, this.#sql, options.onUnreadable);
    this.#readParked();
  }

  /** Refused records, one entry per partition that has any. */
  get refused(): readonly RefusedRecords[] {
    return this.#partitions.refused;
  }

  /** Prepares a partition. Call it before the partition's records are folded. Further calls have no effect. */
  begin(partition: number): void {
    if (this.#begun.has(partition)) return;
    this.#begun.add(partition);
    this.#setPartition(partition, begun(this.#partitions.get(partition)));
  }

  nextOffset(partition: number): number {
    return this.#partitions.get(partition).nextOffset;
  }

  /** Returns the number of an incarnation's last applied row, or 0 before the first. */
  highWater(incarnation: string): number {
    return this.#sql.mark.get(incarnation)?.n ?? 0;
  }

  /** Number of rows that are parked until the rows before them arrive. */
  get parkedRows(): number {
    let sum = 0;
    for (const count of this.#parkedCounts.values()) sum += count;
    return sum;
  }

  /**
   * Folds at least one record of a partition, then more in order until `budgetMs` has passed. Never throws because of a
   * record's content. If the file cannot be written, throws the errors from `shared/runtime/sqlite.ts` and changes nothing.
   */
  apply(partition: number, records: readonly LogRecord[], budgetMs = Number.POSITIVE_INFINITY): AppliedUsage {
    const until = performance.now() + budgetMs;
    const counts = { ...this.counts };
    const state = new UsageState(this.#sql, this.#parkedCounts, this.#options);
    const gapped = new Set<string>();
    const refused: number[] = [];
    let at = this.#partitions.get(partition);
    let consumed = 0;
    this.#transaction(() => {
      for (const record of records) {
        const refusal = this.#partitions.refusalOf(record);
        at = after(at, record, refusal);
        const into = { partition, state, counts, gapped };
        if (refusal === undefined) this.#fold(record, at.trimmed, into);
        else {
          counts[refusal]++;
          refused.push(record.offset);
        }
        consumed++;
        if (performance.now() > until) break;
      }
      state.write();
      this.#partitions.write(partition, at);
    });
    this.#partitions.noteRefused(partition, refused);
    Object.assign(this.counts, counts);
    this.#partitions.set(partition, at);
    for (const { organisation, period } of state.applied) this.#poolCache.delete(`${organisation} ${period}`);
    return { consumed, rows: state.applied, gaps: this.#gaps(gapped) };
  }

  /**
   * Resets a partition so that it is read again from its beginning. Rows that are already folded are recognised as repeats.
   */
  restart(partition: number): void {
    this.#setPartition(partition, beginning);
  }

  /** Returns the totals of a period over all capacities. */
  totals(organisation: string, period: string): PeriodUsage {
    const models = this.#sql.totals.all(organisation, period).map((row) => ({
      model: row.model,
      promptTokens: row.prompt_tokens,
      completionTokens: row.completion_tokens,
      totalTokens: row.prompt_tokens + row.completion_tokens,
      requests: row.requests,
    }));
    return {
      totalTokens: models.reduce((sum, { totalTokens }) => sum + totalTokens, 0),
      requests: models.reduce((sum, { requests }) => sum + requests, 0),
      models,
    };
  }

  /** Returns the first days of the periods in which an organisation has usage, earliest first. */
  periods(organisation: string): string[] {
    return this.#sql.periods.all(organisation).map(({ period }) => period);
  }

  /** Returns the number of tokens that count against the organisation's allowance in the period. */
  poolTokens(organisation: string, period: string): number {
    const key = `${organisation} ${period}`;
    const cached = this.#poolCache.get(key);
    if (cached !== undefined) return cached;
    return this.#poolCache.keep(key, this.#sql.poolTokens.get(organisation, period)?.tokens ?? 0);
  }

  /** Returns the number of pool tokens for every organisation and period. */
  poolTotals(): PoolTotal[] {
    return this.#sql.poolTotals.all();
  }

  /** Returns the use of an organisation's keys, or of all keys. Keys that never completed a request are omitted. */
  keyUses(organisation: string | undefined, nowMs: number): KeyUse[] {
    const { keyUses, keyUsesOf } = this.#sql;
    const hour = firstHourOfDay(nowMs);
    const found = organisation === undefined ? keyUses.all(hour) : keyUsesOf.all(hour, organisation);
    return found.map(keyUseOf);
  }

  keyUse(key: string, nowMs: number): KeyUse | undefined {
    const found = this.#sql.keyUse.get(firstHourOfDay(nowMs), key);
    return found && keyUseOf(found);
  }

  /** Returns rows kept for export, in the order in which they were folded. Returns fewer than `limit` only at the end. */
  requests(query: RequestQuery): KeptRequest[] {
    return this.rows.requests(query);
  }

  /** First day from which all requests are kept, or undefined until the first search for old ones. */
  get completeFrom(): string | undefined {
    return this.rows.completeFrom;
  }

  close(): void {
    this.rows.close();
    this.#db.close();
  }

  #setPartition(partition: number, state: PartitionState): void {
    this.#transaction(() => this.#partitions.write(partition, state));
    this.#partitions.set(partition, state);
  }

  #fold(record: LogRecord, trimmedStart: boolean, into: FoldInto): void {
    const { rows, junk } = readUsageRecord(record.value);
    into.counts.junk += junk;
    const options = { trimmedStart, parkedMax: this.#options.parkedMax ?? parkedMaxDefault };
    const { partitions } = this.#options;
    for (const read of rows) {
      const row = this.#inLogTime(read, record.atMs);
      if (partitions !== undefined && usagePartition(row.incarnation, partitions) !== into.partition) {
        into.counts.junk++;
        continue;
      }
      if (foldRow(into.state, row, options, into.counts) === 'parked') into.gapped.add(row.incarnation);
    }
  }

  /**
   * Corrects the time of a row that is far ahead of its log record, because the gateway's clock was wrong. The row then
   * counts at the record's time. A row keeps its own time if earlier rows show that the log's time is wrong, or if it is
   * behind the log, because it may have been delayed.
   */
  #inLogTime(read: ReadUsageRow, logMs = Number.POSITIVE_INFINITY): ReadUsageRow {
    const { row } = read;
    if (row === undefined || Date.parse(row.at) <= logMs + aheadMsMax) return read;
    const { newestDay } = this.rows;
    if (newestDay === undefined || newestDay > dayOfMs(logMs + aheadMsMax)) return read;
    const period = row.period === null ? null : billingPeriod(row.period, logMs).start;
    return { ...read, row: { ...row, at: new Date(logMs).toISOString(), period } };
  }

  #gaps(gapped: ReadonlySet<string>): UsageGap[] {
    return [...gapped]
      .filter((incarnation) => this.#parkedCounts.has(incarnation))
      .map((incarnation) => ({ incarnation, next: this.highWater(incarnation) + 1 }));
  }

  #transaction(change: () => void): void {
    try {
      // Other threads read this file, so SQLite cannot reset its write-ahead log. Shorten the log before the transaction, so
      // that a failure changes nothing.
      shortenWal(this.#db, this.#path);
      this.#db.transaction(change).immediate();
    } catch (error) {
      this.#readParked();
      throw mapSqliteError(error, this.#path);
    }
  }

  #readParked(): void {
    this.#parkedCounts = new Map();
    for (const { incarnation, count } of this.#sql.parkedCounts.iterate())
      this.#parkedCounts.set(incarnation, count);
  }
}

export type UsageReader = Pick<
  UsageStore,
  | 'totals'
  | 'periods'
  | 'requests'
  | 'completeFrom'
  | 'poolTokens'
  | 'poolTotals'
  | 'refused'
  | 'keyUse'
  | 'keyUses'
>;

interface FoldInto {
  readonly partition: number;
  readonly state: UsageState;
  readonly counts: FoldCounts;
  readonly gapped: Set<string>;
}
