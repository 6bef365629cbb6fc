/**
 * A snapshot is a single SQLite file that contains the state after a prefix of one log, with its position and digests. All of
 * these change in one transaction. So a crash leaves the state of some prefix, and the fold continues without losing or
 * repeating anything. If the file is deleted, it is rebuilt from the log. Only the fold may change its rows.
 */
import type { Commit } from '../../schemas/events/commit.ts';
import { type KnownEvent, readEvent } from '../../schemas/events/events.ts';
import { emptyHead, type Head, judgeBatch } from '../log/core/chain.ts';
import type { LogRecord } from '../log/core/control-log.ts';
import { type Database, mapSqliteError } from '../runtime/sqlite.ts';
import type { EventContext } from './effect.ts';
import { applyEvent, foldVersion } from './fold.ts';
import { eventContext, nextChunk, printable, withIncreasingOffsets } from './fold-input.ts';
import type { FoldObserver } from './fold-observer.ts';
import { Journal } from './journal.ts';
import { KeyCounts } from './key-counts.ts';
import { hideOverlay, OverlayKeeper, showOverlay } from './overlay.ts';
import { type PositionRow, PositionStore } from './position.ts';
import { type FoldStamp, type RowObserver, Table, type Tables } from './table.ts';
import { combineDigests, hex128, type RowOf, type TableName, tableNames } from './tables.ts';
import { PastStateCache, type State, type StateKind } from './views.ts';
import { overlayForGateway, overlayForView, type StateView } from './waves.ts';

export interface FoldedSlice {
  /** Number of records accepted or skipped. It is less than the number passed in if time ran out or the fold halted. */
  readonly consumed: number;
  /** Commits that extended the log's chain, in order. */
  readonly accepted: readonly Commit[];
}

/** Number of the commit before which the fold has stopped, and the reason. */
export interface Halt {
  readonly seq: number;
  readonly reason: string;
}

/** Folds events for the duration of a preview, which undoes them when it ends. Returns why some of them were skipped. */
export type PreviewFold = (events: Iterable<KnownEvent>, context: EventContext) => readonly string[];

/** An open snapshot file. Used as a `State`, it shows the state after the last folded commit. */
export class Snapshot implements State {
  readonly db: Database;
  readonly path: string;
  readonly #positions: PositionStore;
  readonly #journal: Journal;
  readonly #tables: Tables;
  readonly #keyCounts: KeyCounts;
  readonly #overlay: OverlayKeeper;
  readonly #observer: FoldObserver | undefined;
  #onRow: FoldObserver['changed'] | undefined;
  readonly #stamp: FoldStamp = { seq: 0 };
  readonly #shown: PastStateCache;
  #head: Head;
  #row: PositionRow;
  #nextOffset: number;
  #halt: Halt | undefined;

  /** `db` must have the schema of this fold version; see `open-snapshot.ts`. */
  constructor(db: Database, path: string, observer?: FoldObserver) {
    this.db = db;
    this.path = path;
    this.#observer = observer;
    this.#shown = new PastStateCache(path);
    this.#positions = new PositionStore(db);
    this.#journal = new Journal(db);
    this.#row = this.#positions.read();
    this.#head = toHead(this.#row);
    this.#nextOffset = this.#row.nextOffset;
    this.#keyCounts = new KeyCounts(db);
    this.#tables = openTables(db, this.#positions.sums(), this.#stamp, (table, before, after) => {
      if (table === 'api_key') this.#keyCounts.changed(before as KeyRow, after as KeyRow);
      observer?.changed(table, before, after);
      this.#onRow?.(table, before, after);
    });
    this.#overlay = new OverlayKeeper(this.#tables);
  }

  /** Calls `onRow` for each row written or removed, or stops if it is undefined. The transaction may still roll back. */
  watchRows(onRow: FoldObserver['changed'] | undefined): void {
    this.#onRow = onRow;
  }

  /** Number of the last folded commit. 0 before the first. */
  get seq(): number {
    return this.#head.seq;
  }
  /** Id of the log, or null before `log.created` has been folded. */
  get log(): string | null {
    return this.#head.log;
  }
  /** Last accepted commit: the log's id, the commit's `seq`, the SHA-256 of its record, and the signers. */
  get head(): Head {
    return this.#head;
  }
  /** Log offset at which a reader should continue. */
  get nextOffset(): number {
    return this.#nextOffset;
  }
  /**
   * Moves the read offset back to just after the last accepted record, because the log can prove only that position. Skipped
   * records after it are read again but not counted again.
   */
  rewind(): void {
    this.#nextOffset = this.#row.headOffset + 1;
  }
  /** Offset of the last accepted record. -1 before the first. */
  get headOffset(): number {
    return this.#row.headOffset;
  }
  /** Number of records that did not extend the log's chain, since the snapshot was built. */
  get skipped(): number {
    return this.#row.skipped;
  }
  get halt(): Halt | undefined {
    return this.#halt;
  }
  /** Number of the last checkpoint whose digests differed from this snapshot's, or null if none did. */
  get divergedAt(): number | null {
    return this.#row.divergedAt;
  }
  /** Forgets a divergence. Call it only if this build folded the whole log, which proves more than a checkpoint does. */
  overrideCheckpoint(): void {
    this.#row = { ...this.#row, divergedAt: null };
    this.#positions.write(this.#row);
  }
  get journal(): Journal {
    return this.#journal;
  }

  /**
   * Folds records in one transaction, and stops after about `budgetMs` so that a serving process can yield. Ignores records
   * before `nextOffset`. If it throws `DatabaseUnwritable` or `DatabaseCorrupt`, nothing has been applied.
   */
  apply(records: readonly LogRecord[], budgetMs = Number.POSITIVE_INFINITY): FoldedSlice {
    if (this.#halt || records.length === 0) return { consumed: 0, accepted: [] };
    const accepted: Commit[] = [];
    const before = this.#row;
    const nextBefore = this.#nextOffset;
    const headBefore = this.#head;
    const sums = this.#sums();
    this.#begin();
    try {
      const consumed = this.#foldRecords(records, budgetMs, accepted);
      this.#store();
      this.db.exec('COMMIT');
      return { consumed, accepted };
    } catch (error) {
      this.#row = before;
      this.#nextOffset = nextBefore;
      this.#head = headBefore;
      this.#halt = undefined;
      this.#rollback('ROLLBACK', sums);
      throw mapSqliteError(error, this.path);
    }
  }

  /**
   * Reads a state other than the one after the last commit. For a preview, events are folded as the iterable yields them, so
   * each can depend on the state before it, and all are undone afterwards. `passedOver` lists why some were skipped.
   */
  stateAt<Result>(of: StateKind, read: (state: State, passedOver: readonly string[]) => Result): Result {
    if (of.kind === 'present') return this.#inView(of.view, read);
    if (of.kind === 'past') {
      const db = this.#shown.at(this.log, of);
      return read({ db, seq: of.seq, overlaid: of.isOfWave ? overlayForGateway(db) : undefined }, []);
    }
    const { events, context } = of;
    return this.preview((fold) => read({ db: this.db, seq: context.seq }, fold(events, context)));
  }

  /** Calls `work` with a function that folds events on top of the current state. Undoes all of them afterwards. */
  preview<Result>(work: (fold: PreviewFold) => Result): Result {
    return this.#rolledBack(() =>
      work((events, context) => {
        this.#stamp.seq = context.seq;
        const passedOver: string[] = [];
        for (const event of events) {
          const reason = applyEvent(this.#tables, event, context);
          if (reason !== undefined) passedOver.push(reason);
        }
        // Store the counts now, so that bounds checked on the previewed state include the keys that the preview added.
        this.#keyCounts.store();
        this.#overlay.settle();
        return passedOver;
      }),
    );
  }

  /** Reads the present state through a view. Nothing may be folded meanwhile, as the fold would read overlay rows. */
  #inView<Result>(view: StateView, read: (state: State, passedOver: readonly string[]) => Result): Result {
    const { db, seq } = this;
    const overlaid = overlayForView(db, view);
    if (overlaid === undefined) return read({ db, seq }, []);
    db.exec(showOverlay);
    try {
      return read({ db, seq, overlaid }, []);
    } finally {
      db.exec(hideOverlay);
    }
  }

  /** Describes the newest event that this build could not read and therefore skipped. */
  get passedOver(): string | undefined {
    const unread = this.#journal.newestUnread();
    if (unread === undefined) return undefined;
    const { seq, type, outcome } = unread;
    const why = outcome === 'unknown' ? 'is not known to this build' : 'is not as this build reads it';
    return `commit ${seq}: event type ${printable(type)} ${why}`;
  }

  /** Digests of all tables, 32 hex digits each. */
  digests(): Record<TableName, string> {
    return Object.fromEntries(tableNames.map((name) => [name, hex128(this.#tables[name].sum)])) as Record<
      TableName,
      string
    >;
  }

  /** Combined digest of all tables, 16 hex digits. Processes report it so that they can be compared. */
  digest(): string {
    return combineDigests(this.digests());
  }

  /** Marks the file as cleanly closed, then closes it. */
  close(): void {
    this.#shown.close();
    if (!this.db.open) return;
    try {
      if (!this.db.readonly) this.#checkpoint();
    } finally {
      this.db.close();
    }
  }

  /** Flushes everything to disk before the file is marked clean, so that the mark never reaches the disk before the data. */
  #checkpoint(): void {
    this.db.pragma('synchronous = FULL');
    this.db.pragma('wal_checkpoint(TRUNCATE)');
    this.#positions.markClean();
  }

  /** Returns the number of records consumed. The rest is for the next slice or, at an unknown event, for a newer build. */
  #foldRecords(records: readonly LogRecord[], budgetMs: number, accepted: Commit[]): number {
    const until = performance.now() + budgetMs;
    let consumed = 0;
    while (consumed < records.length) {
      const chunk = nextChunk(records, consumed, budgetMs);
      const folded = this.#foldChunk(chunk, accepted);
      consumed += folded;
      if (folded < chunk.length || performance.now() > until) break;
    }
    return consumed;
  }

  #foldChunk(records: readonly LogRecord[], accepted: Commit[]): number {
    const fresh = withIncreasingOffsets(records, this.#nextOffset);
    for (const [index, judgement] of judgeBatch(this.#head, fresh).entries()) {
      const record = fresh[index] as LogRecord;
      if ('accepted' in judgement) {
        if (!this.#foldCommit(judgement.accepted, judgement.head.hash)) return records.indexOf(record);
        this.#head = judgement.head;
        this.#row = { ...this.#row, headOffset: record.offset, nextOffset: record.offset + 1 };
        accepted.push(judgement.accepted);
      } else if (record.offset >= this.#row.nextOffset) {
        this.#row = { ...this.#row, skipped: this.#row.skipped + 1, nextOffset: record.offset + 1 };
      }
      this.#nextOffset = record.offset + 1;
    }
    return records.length;
  }

  #begin(): void {
    try {
      this.db.exec('BEGIN IMMEDIATE');
    } catch (error) {
      throw mapSqliteError(error, this.path);
    }
  }

  /** Folds one commit. Returns false and folds nothing if it contains a critical event that this build does not know. */
  #foldCommit(commit: Commit, recordHash: string): boolean {
    const events = commit.events.map((stored) => ({ stored, read: readEvent(stored) }));
    const unknown = events.find(({ stored, read }) => read.outcome === 'unknown' && stored.critical);
    if (unknown) {
      this.#halt = {
        seq: commit.seq,
        reason: `event type ${printable(unknown.stored.type)} is not known to this build`,
      };
      return false;
    }
    const context = eventContext(commit);
    this.#stamp.seq = commit.seq;
    for (const [index, { stored, read }] of events.entries()) {
      if (read.outcome !== 'known') {
        this.#journal.keepUnread(commit.seq, index, stored, read.outcome);
        continue;
      }
      if (read.event.type === 'checkpoint') this.#compare(read.event.data, commit.seq);
      this.#observer?.event(commit, index);
      const reason = applyEvent(this.#tables, read.event, context);
      if (reason) this.#journal.recordSkipped(commit.seq, index, stored.type, reason);
    }
    this.#overlay.settle();
    this.#journal.command(commit, recordHash);
    this.#observer?.committed(commit, () => this.digests());
    return true;
  }

  #compare(
    checkpoint: { readonly foldVersion: number; readonly digests: Readonly<Record<string, string>> },
    seq: number,
  ): void {
    if (checkpoint.foldVersion !== foldVersion) return;
    const ours: Record<string, string> = this.digests();
    const differs = tableNames.some((name) => checkpoint.digests[name] !== ours[name]);
    if (differs) this.#row = { ...this.#row, divergedAt: seq };
  }

  #store(): void {
    const { log, seq, hash, signers } = this.#head;
    this.#row = { ...this.#row, log, seq, hash, signers };
    this.#positions.write(this.#row);
    for (const name of tableNames) {
      const sum = this.#tables[name].takeDirtySum();
      if (sum !== undefined) this.#positions.writeSum(name, hex128(sum));
    }
    this.#keyCounts.store();
  }

  #sums(): bigint[] {
    return tableNames.map((name) => this.#tables[name].sum);
  }

  /** Undoes the changes of `work`. The outermost savepoint is not released, because that would fail on a full disk. */
  #rolledBack<Result>(work: () => Result): Result {
    const sums = this.#sums();
    const undo = this.db.inTransaction ? 'ROLLBACK TO rolled_back; RELEASE rolled_back' : 'ROLLBACK';
    this.db.exec('SAVEPOINT rolled_back');
    try {
      return work();
    } finally {
      this.#rollback(undo, sums);
    }
  }

  /** Rolls back the rows, and resets the digests and counts in memory to match them. */
  #rollback(statement: string, sums: readonly bigint[]): void {
    if (this.db.inTransaction) this.db.exec(statement);
    for (const [index, name] of tableNames.entries()) this.#tables[name].reset(sums[index] ?? 0n);
    this.#keyCounts.reset();
    this.#overlay.forget();
  }
}

type KeyRow = RowOf<'api_key'> | undefined;

function toHead(row: PositionRow): Head {
  const { log, seq, hash, signers } = row;
  return seq === 0 ? emptyHead() : { log, seq, hash, signers };
}

function openTables(
  db: Database,
  sums: Readonly<Record<string, bigint>>,
  stamp: FoldStamp,
  changed: RowObserver,
): Tables {
  return Object.fromEntries(
    tableNames.map((name) => [name, new Table(db, name, sums[name] ?? 0n, stamp, changed)]),
  ) as unknown as Tables;
}
