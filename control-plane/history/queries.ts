/** Queries answered from the history. Their first argument is a position that the history must reach before it answers. */
import type { AdminResponse, StateReadName } from '../../schemas/admin/admin.ts';
import type { RowChange } from '../../schemas/admin/admin-history.ts';
import type { DecisionRecord } from '../../schemas/records/decisions.ts';
import type { ExplainRequest } from '../../schemas/records/explanations.ts';
import { atOnce } from '../../shared/runtime/slices.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import type { TableName } from '../../shared/snapshot/tables.ts';
import type { State } from '../../shared/snapshot/views.ts';
import { overlayForView, type StateView } from '../../shared/snapshot/waves.ts';
import { CommandError } from '../core/command-error.ts';
import { type AnswerBefore, answerBefore, type EarlierAnswer } from '../explain/answer-before.ts';
import { type DescribedDecision, decideAnswer, describeDecision } from '../explain/described.ts';
import { type EffectQuestion, effectSteps, type FoundEffect, previewEvents } from '../explain/effect.ts';
import { type Asker, findAsker } from '../explain/imagined.ts';
import { type MatrixPage, type MatrixQuestion, matrixSteps } from '../explain/matrix.ts';
import type { Question } from '../explain/question.ts';
import type { CounterFacts } from '../explain/recorded-counters.ts';
import { parseSample } from '../explain/sampled.ts';
import { ListPage } from '../state/list-page.ts';
import { type DoctorRows, readDoctorRows } from './doctor-rows.ts';
import { type EventSearch, type FoundEvents, listCommitEvents, searchEvents } from './event-search.ts';
import { type ReadParams, type ReadQuery, readInWave, stateReads } from './reads.ts';
import { keyOfRow, type RowAtTwo, VersionReader } from './row-changes.ts';
import { shownChanges } from './shown-changes.ts';
import { type HistoryCommit, pastState } from './tables.ts';
import { firstPosition, keepMore } from './trim.ts';
import { type CommitInverse, inverseOfCommit } from './undo.ts';

export interface HistoryFacts {
  readonly position: number;
  /** Size of `history.db` on disk, in bytes. */
  readonly bytes: number;
}

/** Facts about a past state that can be known without reading its rows. */
export interface PastFacts {
  readonly seq: number;
  /** Time of the commit in ms since 1970, from the writer's clock but never earlier than the commits before it. */
  readonly atMs: number;
  readonly signers: readonly string[];
}

export interface PastRead {
  /** Organisation whose members may read the result. Absent if only operators may. */
  readonly organisation?: string | undefined;
  /** Result as JSON, or absent if nothing was found. A list is an object that does not contain its position yet. */
  readonly found?: string | undefined;
  readonly isList: boolean;
}

export type ShownCommit = AdminResponse<'GET /events/:position'>;

/** Signatures of the queries as other threads see them. There, a query that works in steps looks like any other. */
export type HistoryQueries = {
  readonly [Name in keyof HistoryReader]: (
    ...args: Parameters<HistoryReader[Name]>
  ) => QueryAnswer<ReturnType<HistoryReader[Name]>>;
};
type QueryAnswer<Found> = Found extends Generator<void, infer Answer> ? Answer : Found;

/** Answers queries from one history file, on the thread that folds it. */
export class HistoryReader {
  readonly #snapshot: Snapshot;
  readonly #versions: VersionReader;
  readonly #begin: () => number;
  readonly #facts: () => HistoryFacts;

  constructor(snapshot: Snapshot, facts: () => HistoryFacts) {
    this.#snapshot = snapshot;
    this.#facts = facts;
    this.#versions = new VersionReader(snapshot.db);
    this.#begin = () => firstPosition(snapshot.db);
  }

  facts(_seq: number): HistoryFacts {
    return this.#facts();
  }

  /** Returns the position of the last commit written up to this time, or 0 if there is none. */
  positionAt(_head: number, timeMs: number): number {
    const found = this.#snapshot.db
      .prepare('SELECT seq FROM history_commit WHERE clock_ms <= ? ORDER BY clock_ms DESC, seq DESC LIMIT 1')
      .pluck()
      .get(timeMs);
    const seq = Number(found ?? 0);
    if (seq > 0) this.#needKept(seq);
    return seq;
  }

  past(seq: number): PastFacts {
    const { clock_ms: atMs } = this.#commit(seq);
    const signers = this.#snapshot.db
      .prepare<[number], string>(
        'SELECT signers FROM history_commit WHERE seq <= ? AND signers IS NOT NULL ORDER BY seq DESC LIMIT 1',
      )
      .pluck()
      .get(seq) as string | undefined;
    return {
      seq,
      atMs,
      signers: JSON.parse(signers ?? '[]') as string[],
    };
  }

  digests(seq: number): Readonly<Record<TableName, string>> {
    this.#needKept(seq);
    return this.#versions.digestsAt(seq);
  }

  /** Reads a resource. If `addsWave` is set, adds the resource as it would be with the open change. */
  read(seq: number, name: StateReadName, params: ReadParams, query: ReadQuery, addsWave: boolean): PastRead {
    const { organisationOf, read } = stateReads[name];
    return this.#at(seq, ({ db }) => {
      const organisation = organisationOf?.(db, params, query);
      const row = read(db, params, query, (node) => node);
      const found = row && addsWave ? { ...row, ...this.#inWave(seq, name, params, query) } : row;
      const list = Array.isArray(found) ? new ListPage<unknown>(found) : found;
      return {
        organisation,
        found: list === undefined ? undefined : JSON.stringify(list),
        isList: list instanceof ListPage,
      };
    });
  }

  described(seq: number, question: Question, view: StateView, record?: DecisionRecord): DescribedDecision {
    return this.#at(seq, (state) => describeDecision(state, question, record), view);
  }

  /** Finds the organisation that a hypothetical request comes from. Throws a `NotFound` error if it is unknown. */
  asker(seq: number, ask: Pick<ExplainRequest, 'key' | 'organisation'>, nowMs: number): Asker | undefined {
    return this.#at(seq, ({ db }) => findAsker(db, ask, nowMs));
  }

  matrix(
    seq: number,
    ...asked: readonly [question: MatrixQuestion, counters: CounterFacts, nowMs: number]
  ): MatrixPage {
    return this.#at(seq, ({ db }) => atOnce(matrixSteps(db, ...asked)));
  }

  /** Computes the effect of events on the latest state. `sample` contains lines of recorded decisions. */
  *effect(
    _seq: number,
    asked: Omit<EffectQuestion, 'records'>,
    sample: readonly string[] | undefined,
  ): Generator<void, FoundEffect & { readonly position: number; readonly changes?: RowChange[] }> {
    const records = sample && (yield* parseSample(sample, asked.organisation));
    for (let tries = 1; ; tries++) {
      const { seq } = this.#snapshot;
      const steps = effectSteps(this.#snapshot, { ...asked, records });
      while (this.#snapshot.seq === seq) {
        const { done, value } = steps.next();
        if (done) {
          const isUnserved = value.recorded?.asked === 0 && asked.organisation === undefined;
          return { position: seq, ...value, ...(isUnserved && { changes: this.#changedBy(asked) }) };
        }
        // After several tries, runs to the end without yielding, because the state might otherwise change again.
        if (tries < effectTriesMax) yield;
      }
    }
  }

  /** Returns the rows that the events would change in the latest state, up to a maximum number. */
  #changedBy(asked: Pick<EffectQuestion, 'events' | 'by' | 'nowMs'>): RowChange[] {
    const rows = new Map<string, RowAtTwo>();
    this.#snapshot.watchRows((table, before, after) => {
      const key = keyOfRow(table, after ?? before ?? {});
      const id = JSON.stringify([table, key]);
      const known = rows.get(id);
      if (known !== undefined || rows.size < changesMax)
        rows.set(id, { table, key, before: known ? known.before : before, after });
    });
    try {
      previewEvents(this.#snapshot, asked)(() => undefined);
    } finally {
      this.#snapshot.watchRows(undefined);
    }
    return shownChanges([...rows.values()]);
  }

  answerBefore(_last: number, question: Question, asked: AnswerBefore): EarlierAnswer | undefined {
    return answerBefore(asked, this.#begin(), (seq) =>
      this.#at(seq, ({ db }) => decideAnswer(db, question), asked.view),
    );
  }

  events(_head: number, search: EventSearch): FoundEvents {
    const begin = this.#begin();
    const found = searchEvents(this.#snapshot.db, { ...search, from: Math.max(search.from, begin) });
    return { ...found, ...(search.from < begin && { begin }) };
  }

  show(seq: number): ShownCommit {
    this.#needKept(seq);
    const commit = this.#commit(seq);
    const { at, author, why, command } = commit;
    return {
      position: seq,
      at,
      by: author,
      ...(why !== null && { why }),
      command,
      events: listCommitEvents(commit),
      changes: shownChanges(this.#versions.between(seq - 1, seq, changesMax)),
    };
  }

  /** Returns up to `max` rows that differ between two positions. Callers request one more than they show, to detect more. */
  changes(_head: number, from: number, to: number, max: number): RowChange[] {
    this.#needKept(Math.min(from, to));
    if (from <= to) return shownChanges(this.#versions.between(from, to, max));
    const back = this.#versions.between(to, from, max);
    return shownChanges(back.map((change) => ({ ...change, before: change.after, after: change.before })));
  }

  doctorRows(_head: number, nowMs: number): DoctorRows {
    return readDoctorRows(this.#snapshot.db, nowMs);
  }

  /** Returns the latest names of keys, including keys that are no longer in the state. */
  keyNames(_head: number, ids: readonly string[]): (readonly [id: string, name: string])[] {
    const nameOf = this.#snapshot.db
      .prepare<[string], string | null>(
        'SELECT name FROM past_api_key WHERE id = ? ORDER BY set_seq DESC LIMIT 1',
      )
      .pluck();
    return ids.flatMap((id) => {
      const name = nameOf.get(id);
      return typeof name === 'string' ? [[id, name] as const] : [];
    });
  }

  /** Returns the inverse of a commit. Throws a `Conflict` error if the commit cannot be undone. */
  inverse(seq: number): CommitInverse {
    const events = JSON.parse(this.#commit(seq).events);
    return this.#at(seq - 1, ({ db: before }) =>
      this.#at(seq, ({ db: after }) => inverseOfCommit(events, { before, after }, seq)),
    );
  }

  /**
   * Throws a `NotFound` error if the position was removed from the history. If nothing was removed, even the empty state
   * before the first commit can be read.
   */
  #needKept(seq: number): void {
    const begin = this.#begin();
    if (seq >= begin || begin === 1) return;
    throw beforeHistory(begin);
  }

  #at<Result>(seq: number, read: (state: State) => Result, view: StateView = 'base'): Result {
    this.#needKept(seq);
    return this.#snapshot.stateAt(pastState(seq, this.#isOfWave(seq, view)), read);
  }

  #inWave(seq: number, name: StateReadName, params: ReadParams, query: ReadQuery): object {
    const { read } = stateReads[name];
    return this.#at(
      seq,
      (state) =>
        readInWave(
          state,
          read(state.db, params, query, (node) => node),
        ),
      'wave',
    );
  }

  #isOfWave(seq: number, view: StateView): boolean {
    if (view === 'base') return false;
    return this.#snapshot.stateAt(pastState(seq), ({ db }) => overlayForView(db, view) !== undefined);
  }

  #commit(seq: number): HistoryCommit {
    const commit = this.#snapshot.db
      .prepare<[number], HistoryCommit>('SELECT * FROM history_commit WHERE seq = ?')
      .get(seq);
    if (!commit) this.#needKept(seq);
    if (!commit) throw new CommandError('NotFound', `there is no position ${seq}`);
    return commit;
  }
}

/** Creates the error for a position that the history no longer contains. */
function beforeHistory(begin: number): CommandError {
  return new CommandError('NotFound', `the history of this control plane begins at position ${begin}`, {
    next: keepMore,
  });
}

const effectTriesMax = 3;

/** Maximum number of row changes shown for one commit. Removing an organisation can remove very many keys. */
const changesMax = 20_000;
