/**
 * Which sessions and sign-in links are over, from the events of the log. Not a table of the state, because nothing but
 * consoles needs it. A file remembers each end until it would not be accepted anyway, and how far the log was read, so that a
 * start reads only what is new; a new replica reads the log once.
 */
import { rmSync } from 'node:fs';
import { z } from 'zod';
import type { Commit } from '../../schemas/events/commit.ts';
import type { EventTypeName } from '../../schemas/events/event-definitions.ts';
import { type EventData, readEvent, type StoredEvent } from '../../schemas/events/events.ts';
import type { ControlLog } from '../../shared/log/core/control-log.ts';
import { RemovalTime, wallClockMs } from '../../shared/runtime/clock.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { createTables, type Database, openDatabase } from '../../shared/runtime/sqlite.ts';
import { first } from '../../shared/runtime/statements.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { CommitReader, ReadMarks } from '../state/commits.ts';
import { linksSubject, memberSubject, sessionMsMax } from './subjects.ts';

const sql = `
  CREATE TABLE ended (name TEXT PRIMARY KEY, position INTEGER NOT NULL, until_ms INTEGER NOT NULL) WITHOUT ROWID;
  CREATE INDEX ended_until ON ended (until_ms);
  CREATE TABLE mark (id INTEGER PRIMARY KEY CHECK (id = 1), mark TEXT NOT NULL);`;
/** All commits up to this one were read. */
const markSchema = z.object({
  head: z.object({
    log: z.string(),
    seq: z.int().min(1),
    hash: z.string(),
    signers: z.array(z.string()),
  }),
  offset: z.int().min(0),
});
type Mark = z.infer<typeof markSchema>;

interface End extends Pick<EventData<'session.ended'>, 'kind' | 'subject'> {
  readonly untilMs: number;
}

/** Events that end sessions: a link's session ends with the membership, also where the person joins again. */
const endingTypes: ReadonlySet<string> = new Set<EventTypeName>([
  'session.ended',
  'member.removed',
  'organisation.removed',
]);

/**
 * The end of sessions that an event causes. `at` is the commit's time; no earlier session outlives it by more than `sessionMsMax`.
 * Returns undefined if no session that the event ends could still be valid at `nowMs`.
 */
function toEnd(event: StoredEvent, at: string, nowMs: number): End | undefined {
  const read = readEvent(event);
  if (read.outcome !== 'known') return undefined;
  const { type, data } = read.event;
  if (type === 'session.ended') return { ...data, untilMs: Date.parse(data.until) };
  const untilMs = Date.parse(at) + sessionMsMax;
  if (!(untilMs > nowMs)) return undefined;
  if (type === 'organisation.removed') return { kind: 'person', subject: linksSubject(data.id), untilMs };
  if (type !== 'member.removed') return undefined;
  return { kind: 'person', subject: memberSubject(data.organisation, data.person), untilMs };
}

export interface EndedSessionsOptions {
  readonly path: string;
  readonly snapshot: Snapshot;
  readonly log: ControlLog;
  readonly logger: Logger;
}

export class EndedSessions {
  readonly #options: EndedSessionsOptions;
  readonly #db: Database;
  readonly #removal = new RemovalTime();
  /** Ends that the disk did not take, each with its position and the time until which it counts. */
  #unwritten: [name: string, position: number, untilMs: number][] = [];
  readonly #ready: Promise<void>;
  /** Until then the file may not say that all before the present position was read. */
  #isComplete = false;

  /** Begins anew where the file is damaged. */
  constructor(options: EndedSessionsOptions) {
    this.#options = options;
    this.#db = openEnded(options.path);
    this.#ready = this.#readPast();
    // What needs it awaits it; a failure must not end the process before.
    this.#ready.catch((error: unknown) =>
      options.logger.error({ err: error }, 'the ends of sessions cannot be read, so no session is accepted'),
    );
  }

  /** Rejects where the log could not be read; no session may be accepted then. */
  ready(): Promise<void> {
    return this.#ready;
  }

  /** For each batch that is folded. */
  readonly onCommits = (commits: readonly Commit[]): void => this.#take(commits);

  close(): void {
    this.#store();
    this.#db.close();
  }

  /** Until then `hasEnded` does not know of all that ended. */
  isReady(): boolean {
    return this.#isComplete;
  }

  hasEnded(kind: 'session' | 'link', subject: string): boolean {
    return this.#endedAt(`${kind} ${subject}`) !== undefined;
  }

  /** Whether a session of this person that began at a position was ended with all of the person's sessions. */
  hasPersonEnded(person: string, position: number): boolean {
    return (this.#endedAt(`person ${person}`) ?? 0) > position;
  }

  #endedAt(name: string): number | undefined {
    const written = first<{ position: number }>(this.#db, 'SELECT position FROM ended WHERE name = ?', name);
    const positions = this.#unwritten.flatMap(([each, position]) => (each === name ? [position] : []));
    if (written) positions.push(written.position);
    return positions.length === 0 ? undefined : Math.max(...positions);
  }

  async #readPast(): Promise<void> {
    const { snapshot, log } = this.#options;
    const marks = new ReadMarks();
    const mark = this.#load();
    if (mark) marks.add(mark);
    const reader = new CommitReader(log, snapshot.log, { marks, from: (mark?.head.seq ?? 0) + 1 });
    for await (const batch of reader.upTo(snapshot.seq)) this.#take(batch.map(({ commit }) => commit));
    this.#isComplete = true;
    this.#store();
  }

  /** How far an earlier run read. What one of another log wrote is removed. */
  #load(): Mark | undefined {
    const { snapshot } = this.#options;
    const row = first<{ mark: string }>(this.#db, 'SELECT mark FROM mark');
    const mark = row && markSchema.safeParse(JSON.parse(row.mark)).data;
    if (mark?.head.log === snapshot.log && mark.head.seq <= snapshot.seq) return mark;
    this.#db.exec('DELETE FROM ended; DELETE FROM mark');
    return undefined;
  }

  #take(commits: readonly Commit[]): void {
    // A fast clock must not forget an ended session, because it would be accepted again once the clock is right.
    const nowMs = Math.min(this.#removal.limit(wallClockMs()), Date.parse(commits.at(-1)?.at ?? ''));
    for (const { seq, at, events } of commits)
      for (const event of events) {
        const end = endingTypes.has(event.type) ? toEnd(event, at, nowMs) : undefined;
        if (end) this.#unwritten.push([`${end.kind} ${end.subject}`, seq, end.untilMs]);
      }
    if (this.#unwritten.length > 0) this.#store(nowMs);
  }

  /** The last end of a name counts: the past is read while commits arrive. */
  #store(nowMs?: number): void {
    const { snapshot, logger } = this.#options;
    const write = this.#db.transaction(() => {
      const add = this.#db.prepare(`INSERT INTO ended VALUES (?, ?, ?) ON CONFLICT DO UPDATE
        SET position = max(position, excluded.position), until_ms = max(until_ms, excluded.until_ms)`);
      for (const end of this.#unwritten) add.run(end);
      this.#db.prepare('DELETE FROM ended WHERE until_ms < ?').run(nowMs ?? null);
      if (!this.#isComplete) return;
      const mark = JSON.stringify({ head: snapshot.head, offset: snapshot.nextOffset });
      this.#db.prepare('INSERT OR REPLACE INTO mark VALUES (1, ?)').run(mark);
    });
    try {
      write.immediate();
      this.#unwritten = [];
    } catch (error) {
      logger.warn({ err: error }, 'the ends of sessions were not stored; the next start reads the log again');
    }
  }
}

/** The log has all of it, so a file that cannot be read is made again. */
function openEnded(path: string): Database {
  const open = (): Database => {
    const db = openDatabase(path, { durability: 'normal', busyTimeoutMs: 0 });
    try {
      createTables(db, path, { version: 1, sql });
      if (db.pragma('quick_check', { simple: true }) !== 'ok') throw new Error(`${path} is damaged`);
      return db;
    } catch (error) {
      db.close();
      throw error;
    }
  };
  try {
    return open();
  } catch {
    for (const suffix of ['', '-wal', '-shm']) rmSync(path + suffix, { force: true });
    return open();
  }
}
