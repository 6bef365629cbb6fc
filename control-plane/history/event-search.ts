/** Searches the events of commits by their subjects, starting with the oldest or the newest. */
import type { ListedEvent } from '../../schemas/admin/admin-history.ts';
import type { StoredEvent } from '../../schemas/events/events.ts';
import type { Database, Statement } from '../../shared/runtime/sqlite.ts';
import type { subjectKinds } from './subjects.ts';
import type { HistoryCommit } from './tables.ts';

export interface EventSearch {
  readonly from: number;
  readonly to: number;
  readonly order: 'asc' | 'desc';
  /** Maximum number of events on a page. Without `isExact`, a page may exceed it, because it ends with a complete commit. */
  readonly limit: number;
  /** Whether the limit is exact, even if this splits a commit. */
  readonly isExact: boolean;
  /** Id to match for each kind of subject. */
  readonly subjects: Readonly<Partial<Record<(typeof subjectKinds)[number], string | undefined>>>;
  /** Text to find in the event, its author, its reason or its command. */
  readonly text?: string | undefined;
}

export interface FoundEvents {
  readonly items: ListedEvent[];
  /** Position at which the next page starts, in the requested order. Absent on the last page. */
  readonly next?: number;
  /** First position that the history contains, if earlier positions were removed. The log still contains earlier events. */
  readonly begin?: number;
}

/** Maximum number of commits that are read for one page. A search for a rare text continues on the next page. */
const readMax = 200_000;
const bytesMax = 32 * 1024 * 1024;
/** Kinds of subjects by which events can be filtered, starting with the one that matches the fewest events. */
const byRarity = ['key', 'node', 'stack', 'organisation', 'actor', 'type'] as const;

export function listCommitEvents(commit: HistoryCommit): ListedEvent[] {
  const { seq, at, author, why, via, command } = commit;
  return (JSON.parse(commit.events) as StoredEvent[]).map(({ type, v, data }, index) => ({
    position: seq,
    index,
    type,
    v,
    data,
    at,
    by: author,
    ...(why !== null && { why }),
    ...(via !== null && { via }),
    command,
  }));
}

export function searchEvents(db: Database, search: EventSearch): FoundEvents {
  const items: ListedEvent[] = [];
  const commitAt = db.prepare<[number], HistoryCommit>('SELECT * FROM history_commit WHERE seq = ?');
  let read = 0;
  let bytes = 0;
  for (const { seq, indexes } of candidates(db, search)) {
    if (items.length >= search.limit || read >= readMax || bytes >= bytesMax)
      return { items: cut(items, search), next: seq };
    read++;
    const commit = commitAt.get(seq);
    if (!commit || !mayMatch(commit, search.text)) continue;
    bytes += commit.events.length;
    const found = listCommitEvents(commit).filter(
      (event) => (!indexes || indexes.has(event.index)) && matches(event, search.text),
    );
    items.push(...(search.order === 'desc' ? found.reverse() : found));
  }
  return { items: cut(items, search) };
}

function cut(items: ListedEvent[], { limit, isExact }: EventSearch): ListedEvent[] {
  return isExact ? items.slice(0, limit) : items;
}

interface Candidate {
  readonly seq: number;
  /** Indexes of the matching events in the commit. If absent, all its events match. */
  readonly indexes?: ReadonlySet<number>;
}

function* candidates(db: Database, search: EventSearch): Generator<Candidate> {
  const { from, to, order, subjects } = search;
  const wanted = byRarity.flatMap((kind) => {
    const id = subjects[kind];
    return id === undefined ? [] : [{ kind, id }];
  });
  const [first, ...rest] = wanted;
  if (first === undefined) {
    const all = db.prepare(
      `SELECT seq FROM history_commit WHERE seq BETWEEN ? AND ? ORDER BY seq ${order}`,
    ) as Statement<unknown[], { readonly seq: number }>;
    yield* all.iterate(from, to);
    return;
  }
  const also = rest.map(
    () =>
      'AND EXISTS (SELECT 1 FROM subject x WHERE x.kind = ? AND x.id = ? AND x.seq = s.seq AND x.idx = s.idx)',
  );
  const statement = db.prepare(
    `SELECT seq, idx FROM subject s WHERE kind = ? AND id = ? AND seq BETWEEN ? AND ? ${also.join(' ')}
     ORDER BY seq ${order}, idx`,
  ) as Statement<unknown[], { readonly seq: number; readonly idx: number }>;
  const others = rest.flatMap(({ kind, id }) => [kind, id]);
  let seq = 0;
  let indexes = new Set<number>();
  for (const row of statement.iterate(first.kind, first.id, from, to, ...others)) {
    if (row.seq !== seq && seq !== 0) {
      yield { seq, indexes };
      indexes = new Set();
    }
    seq = row.seq;
    indexes.add(row.idx);
  }
  if (seq !== 0) yield { seq, indexes };
}

function mayMatch({ events, author, why, command }: HistoryCommit, text: string | undefined): boolean {
  return text === undefined || has([events, author, why ?? '', command].join('\n'), text);
}

function matches({ type, data, by, why, command }: ListedEvent, text: string | undefined): boolean {
  return text === undefined || has([type, JSON.stringify(data), by, why ?? '', command].join('\n'), text);
}

function has(content: string, text: string): boolean {
  return content.toLowerCase().includes(text.toLowerCase());
}
