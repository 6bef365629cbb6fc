/**
 * Records which sessions have ended and which sign-in links were used, from events in the log. Only consoles need this. A
 * file keeps each end until the session or link would have expired, and the position up to which the log has been read. So a
 * restart reads only new commits, and only a new replica reads the whole log, once.
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
/** Position up to which the log has been read. */
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

/** Types of events that end sessions. A session from a link ends with the membership, even if the person joins again. */
const endingTypes: ReadonlySet<string> = new Set<EventTypeName>([
  'session.ended',
  'member.removed',
  'organisation.removed',
]);

/** Returns which sessions an event at time `at` ends, or undefined if none of them could still be valid at `nowMs`. */
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
  /** Ends of sessions that are not on disk yet. Each has its position and the time in ms until which it counts. */
  #unwritten: [name: string, position: number, untilMs: number][] = [];
  readonly #ready: Promise<void>;
  /** Whether past commits have been read. Until then, the file must not claim to be complete up to the current position. */
  #isComplete = false;

  /** Opens the file and starts to read past commits. If the file is damaged, starts with an empty one. */
  constructor(options: EndedSessionsOptions) {
    this.#options = options;
    this.#db = openEnded(options.path);
    this.#ready = this.#readPast();
    // Callers await `ready()` themselves. Until they do, a failure must not end the process.
    this.#ready.catch((error: unknown) =>
      options.logger.error({ err: error }, 'the ends of sessions cannot be read, so no session is accepted'),
    );
  }

  /** Resolves once past commits have been searched for ended sessions. If it rejects, no session may be accepted. */
  ready(): Promise<void> {
    return this.#ready;
  }

  /** Adds the ends of sessions in a batch of folded commits. */
  readonly onCommits = (commits: readonly Commit[]): void => this.#take(commits);

  close(): void {
    this.#store();
    this.#db.close();
  }

  /** Whether past commits have been searched for ended sessions. Until then, `hasEnded` may miss some. */
  isReady(): boolean {
    return this.#isComplete;
  }

  hasEnded(kind: 'session' | 'link', subject: string): boolean {
    return this.#endedAt(`${kind} ${subject}`) !== undefined;
  }

  /** Whether all sessions of this person were ended by a commit after `position`, at which the session in question began. */
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

  /** Returns the position that an earlier process reached. Removes the data if it comes from another log. */
  #load(): Mark | undefined {
    const { snapshot } = this.#options;
    const row = first<{ mark: string }>(this.#db, 'SELECT mark FROM mark');
    const mark = row && markSchema.safeParse(JSON.parse(row.mark)).data;
    if (mark?.head.log === snapshot.log && mark.head.seq <= snapshot.seq) return mark;
    this.#db.exec('DELETE FROM ended; DELETE FROM mark');
    return undefined;
  }

  #take(commits: readonly Commit[]): void {
    // Limits the time used for expiry. Otherwise a fast clock would make this process forget that a session has ended.
    const nowMs = Math.min(this.#removal.limit(wallClockMs()), Date.parse(commits.at(-1)?.at ?? ''));
    for (const { seq, at, events } of commits)
      for (const event of events) {
        const end = endingTypes.has(event.type) ? toEnd(event, at, nowMs) : undefined;
        if (end) this.#unwritten.push([`${end.kind} ${end.subject}`, seq, end.untilMs]);
      }
    if (this.#unwritten.length > 0) this.#store(nowMs);
  }

  /** Writes pending ends to the file. The highest position per name wins, because past and new commits arrive interleaved. */
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

/** Opens the file, or recreates it if it is unreadable, because the log contains everything in it. */
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
