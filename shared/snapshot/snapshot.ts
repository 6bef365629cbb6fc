/**
 * A snapshot: the state of one log prefix in one SQLite file, with its position and digests.
 * Position, rows and digests change in one transaction, so a crash between any two statements leaves a state that some
 * prefix of the log had, and folding again from its position loses and repeats nothing.
 * Derived and disposable: delete the file and it is rebuilt from the log.
 */
import type { Commit } from '../../schemas/events/commit.ts';
import { type KnownEvent, readEvent } from '../../schemas/events/events.ts';
import { emptyHead, type Head, judgeBatch } from '../log/core/chain.ts';
import type { LogRecord } from '../log/core/control-log.ts';
import { type Database, mapSqliteError } from '../runtime/sqlite.ts';
import type { EventContext } from './effect.ts';
import { applyEvent, foldVersion } from './fold.ts';
import { contextOf, nextChunk, printable, withIncreasingOffsets } from './fold-input.ts';
import type { FoldObserver } from './fold-observer.ts';
import { Journal } from './journal.ts';
import { KeyCounts } from './key-counts.ts';
import { hideOverlay, OverlayKeeper, showOverlay } from './overlay.ts';
import { type PositionRow, PositionStore } from './position.ts';
import { type FoldStamp, type RowObserver, Table, type Tables } from './table.ts';
import { digestOfTables, hex128, type RowOf, type TableName, tableNames } from './tables.ts';
import { ShownStates, type State, type StateKind } from './views.ts';
import { overlaidAt, overlaidIn, type StateView } from './waves.ts';

export interface Applied {
  /** Records consumed, accepted or skipped; fewer than given where the time ran out or the fold halted. */
  readonly consumed: number;
  /** The commits that extended the chain, in order. */
  readonly accepted: readonly Commit[];
}

/** Why the fold has stopped at its position. */
export interface Halt {
  readonly seq: number;
  readonly reason: string;
}

/** Folds events that a preview undoes later. Returns why the fold would not apply some of them. */
export type FoldPreviewed = (events: Iterable<KnownEvent>, context: EventContext) => readonly string[];

/** Itself the state of its last commit. */
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
  readonly #shown: ShownStates;
  #head: Head;
  #row: PositionRow;
  #nextOffset: number;
  #halt: Halt | undefined;

  /** `db` must hold the schema of this fold version; see open-snapshot.ts. */
  constructor(db: Database, path: string, observer?: FoldObserver) {
    this.db = db;
    this.path = path;
    this.#observer = observer;
    this.#shown = new ShownStates(path);
    this.#positions = new PositionStore(db);
    this.#journal = new Journal(db);
    this.#row = this.#positions.read();
    this.#head = headOf(this.#row);
    this.#nextOffset = this.#row.nextOffset;
    this.#keyCounts = new KeyCounts(db);
    this.#tables = openTables(db, this.#positions.sums(), this.#stamp, (table, before, after) => {
      if (table === 'api_key') this.#keyCounts.changed(before as KeyRow, after as KeyRow);
      observer?.changed(table, before, after);
      this.#onRow?.(table, before, after);
    });
    this.#overlay = new OverlayKeeper(this.#tables);
  }

  /**
   * Calls `onRow` for each row that is written or removed, until `undefined` is passed. The call runs inside the transaction of a
   * fold or preview, which may be undone.
   */
  watchRows(onRow: FoldObserver['changed'] | undefined): void {
    this.#onRow = onRow;
  }

  /** `seq` of the last commit folded; 0 before the first. */
  get seq(): number {
    return this.#head.seq;
  }
  /** The log's id, or null before `log.created` was folded. */
  get log(): string | null {
    return this.#head.log;
  }
  /** SHA-256 of the last accepted record, hex. */
  get head(): Head {
    return this.#head;
  }
  /** Offset at which reading the log continues. */
  get nextOffset(): number {
    return this.#nextOffset;
  }
  /**
   * Reading resumes after the last accepted record, whose place the log itself proves: the next offset is only the file's
   * claim, and a log may have lost skipped records. Records that are skipped again are counted once.
   */
  rewind(): void {
    this.#nextOffset = this.#row.headOffset + 1;
  }
  /** Offset of the last accepted record; -1 before the first. */
  get headOffset(): number {
    return this.#row.headOffset;
  }
  /** Records that did not extend the chain, since the snapshot was built. */
  get skipped(): number {
    return this.#row.skipped;
  }
  get halt(): Halt | undefined {
    return this.#halt;
  }
  /** `seq` of the checkpoint whose digests differ from ours, if one did. */
  get divergedAt(): number | null {
    return this.#row.divergedAt;
  }
  /** For a state that this build folded from the first record: it overrides a checkpoint. */
  overrideCheckpoint(): void {
    this.#row = { ...this.#row, divergedAt: null };
    this.#positions.write(this.#row);
  }
  get journal(): Journal {
    return this.#journal;
  }

  /**
   * Folds records that follow `nextOffset`, in one transaction; those before it were consumed earlier and change nothing.
   * Stops early after `budgetMs`, so that a caller that also serves can yield. Throws DatabaseUnwritable or DatabaseCorrupt, with nothing applied.
   */
  apply(records: readonly LogRecord[], budgetMs = Number.POSITIVE_INFINITY): Applied {
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
   * Reads another state than that of the last commit. Events of a preview are folded one after the other as they come, so each
   * may be worked out on the state with those before it, and are undone. `passedOver`: why the fold would not apply some of them.
   */
  stateAt<Result>(of: StateKind, read: (state: State, passedOver: readonly string[]) => Result): Result {
    if (of.kind === 'present') return this.#inView(of.view, read);
    if (of.kind === 'past') {
      const db = this.#shown.at(this.log, of);
      return read({ db, seq: of.seq, overlaid: of.isOfWave ? overlaidAt(db) : undefined }, []);
    }
    const { events, context } = of;
    return this.preview((fold) => read({ db: this.db, seq: context.seq }, fold(events, context)));
  }

  /** Calls `work` with a function that folds events on the state with those before them, and undoes all of them at the end. */
  preview<Result>(work: (fold: FoldPreviewed) => Result): Result {
    return this.#rolledBack(() =>
      work((events, context) => {
        this.#stamp.seq = context.seq;
        const passedOver: string[] = [];
        for (const event of events) {
          const reason = applyEvent(this.#tables, event, context);
          if (reason !== undefined) passedOver.push(reason);
        }
        // Bounds that are counted on this state count what it added.
        this.#keyCounts.store();
        this.#overlay.settle();
        return passedOver;
      }),
    );
  }

  /** Statements that are there already read the rows of the open change, too, and nothing is folded meanwhile. */
  #inView<Result>(view: StateView, read: (state: State, passedOver: readonly string[]) => Result): Result {
    const { db, seq } = this;
    const overlaid = overlaidIn(db, view);
    if (overlaid === undefined) return read({ db, seq }, []);
    db.exec(showOverlay);
    try {
      return read({ db, seq, overlaid }, []);
    } finally {
      db.exec(hideOverlay);
    }
  }

  /** The newest event that this build could not read and did without. */
  get passedOver(): string | undefined {
    const unread = this.#journal.newestUnread();
    if (unread === undefined) return undefined;
    const { seq, type, outcome } = unread;
    const why = outcome === 'unknown' ? 'is not known to this build' : 'is not as this build reads it';
    return `commit ${seq}: event type ${printable(type)} ${why}`;
  }

  /** One digest a table, 32 hex digits each. */
  digests(): Record<TableName, string> {
    return Object.fromEntries(tableNames.map((name) => [name, hex128(this.#tables[name].sum)])) as Record<
      TableName,
      string
    >;
  }

  /** All tables in one digest, 16 hex digits: which processes report to each other. */
  digest(): string {
    return digestOfTables(this.digests());
  }

  /** Marks the file as cleanly closed and releases it. */
  close(): void {
    this.#shown.close();
    if (!this.db.open) return;
    try {
      if (!this.db.readonly) this.#checkpoint();
    } finally {
      this.db.close();
    }
  }

  /** Writes everything to the disk first, so that the mark of a clean close never precedes the data. */
  #checkpoint(): void {
    this.db.pragma('synchronous = FULL');
    this.db.pragma('wal_checkpoint(TRUNCATE)');
    this.#positions.markClean();
  }

  /** Returns how many records were consumed; the rest is for the next slice, or for a build that knows the event. */
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

  /** False where the commit holds an event this build must not pass over: nothing of it is folded then. */
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
    const context = contextOf(commit);
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

  /**
   * Runs `work` and undoes its changes. Releasing the outermost savepoint is a commit, which fails on a full disk and
   * leaves the transaction open: only a rollback never writes.
   */
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

  /** Rolls back the rows, and the sums and counts in memory with them: outside of a transaction none wait to be stored. */
  #rollback(statement: string, sums: readonly bigint[]): void {
    if (this.db.inTransaction) this.db.exec(statement);
    for (const [index, name] of tableNames.entries()) this.#tables[name].reset(sums[index] ?? 0n);
    this.#keyCounts.reset();
    this.#overlay.forget();
  }
}

type KeyRow = RowOf<'api_key'> | undefined;

function headOf(row: PositionRow): Head {
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
