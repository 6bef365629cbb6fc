/** Bounded side tables of a snapshot: recent commands (to recognise repetitions), unreadable events and skipped events. */
import type { Commit } from '../../schemas/events/commit.ts';
import { toFieldTexts } from '../../schemas/events/event-definition.ts';
import type { StoredEvent } from '../../schemas/events/events.ts';
import type { Database, Statement } from '../runtime/sqlite.ts';

/** Number of most recent commits among which a repeated command is recognised. */
const commandsKept = 100_000;
/** Number of commits between two trims. Trimming in batches is cheaper. */
const commandsTrimmedAtOnce = 64;
const anomaliesKept = 1_000;
const unreadKept = 10_000;
const removedKept = 10_000;
const unreadCharactersMax = 16_384;

export const journalSql = `
CREATE TABLE command (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL,       -- id of the command, from its Idempotency-Key
  hash TEXT,              -- SHA-256 of the command's canonical text
  subject TEXT,           -- id of the first event's subject
  record TEXT NOT NULL    -- SHA-256 of the record, hex
) STRICT;
CREATE INDEX command_by_id ON command (id);
CREATE TABLE unread_event (
  seq INTEGER, idx INTEGER, type TEXT, v INTEGER,
  outcome TEXT,           -- unknown | malformed
  data TEXT,              -- JSON as received, or NULL if too long or too deep
  PRIMARY KEY (seq, idx)
) STRICT, WITHOUT ROWID;
CREATE TABLE anomaly (seq INTEGER, idx INTEGER, type TEXT, reason TEXT, PRIMARY KEY (seq, idx)) STRICT, WITHOUT ROWID;
`;

export interface CommandRow {
  readonly seq: number;
  readonly id: string;
  readonly hash: string | null;
  readonly subject: string | null;
  readonly record: string;
}

interface UnreadRow {
  readonly seq: number;
  readonly type: string;
  readonly outcome: 'unknown' | 'malformed';
}

export class Journal {
  readonly #insertCommand: Statement;
  readonly #trimCommands: Statement;
  readonly #trimRemoved: Statement;
  readonly #insertUnread: Statement;
  readonly #trimUnread: Statement;
  readonly #newestUnread: Statement<[], UnreadRow>;
  readonly #insertAnomaly: Statement;
  readonly #trimAnomalies: Statement;
  readonly #bySeq: Statement<[number], CommandRow>;
  readonly #byId: Statement<[string], CommandRow>;

  constructor(db: Database) {
    this.#insertCommand = db.prepare(
      'INSERT OR REPLACE INTO command (seq, id, hash, subject, record) VALUES (?, ?, ?, ?, ?)',
    );
    this.#trimCommands = db.prepare('DELETE FROM command WHERE seq <= ?');
    this.#trimRemoved = db.prepare(
      'DELETE FROM removed WHERE seq < (SELECT seq FROM removed ORDER BY seq DESC LIMIT 1 OFFSET ?)',
    );
    this.#insertUnread = db.prepare(
      'INSERT OR REPLACE INTO unread_event (seq, idx, type, v, outcome, data) VALUES (?, ?, ?, ?, ?, ?)',
    );
    this.#trimUnread = db.prepare('DELETE FROM unread_event WHERE seq <= ?');
    this.#newestUnread = db.prepare<[], UnreadRow>(
      'SELECT seq, type, outcome FROM unread_event ORDER BY seq DESC, idx DESC LIMIT 1',
    );
    this.#insertAnomaly = db.prepare(
      'INSERT OR REPLACE INTO anomaly (seq, idx, type, reason) VALUES (?, ?, ?, ?)',
    );
    this.#trimAnomalies = db.prepare('DELETE FROM anomaly WHERE seq <= ?');
    this.#bySeq = db.prepare<[number], CommandRow>('SELECT * FROM command WHERE seq = ?');
    this.#byId = db.prepare<[string], CommandRow>('SELECT * FROM command WHERE id = ? ORDER BY seq LIMIT 1');
  }

  command(commit: Commit, recordHash: string): void {
    const first = toFieldTexts(commit.events[0]?.data) as {
      readonly id?: unknown;
      readonly change?: unknown;
    };
    const subject = first.id ?? first.change;
    this.#insertCommand.run(
      commit.seq,
      commit.id.toWellFormed(),
      commit.command?.toWellFormed() ?? null,
      typeof subject === 'string' ? subject.toWellFormed() : null,
      recordHash,
    );
    if (commit.seq % commandsTrimmedAtOnce !== 0) return;
    this.#trimCommands.run(commit.seq - commandsKept);
    this.#trimRemoved.run(removedKept);
  }

  commandAt(seq: number): CommandRow | undefined {
    return this.#bySeq.get(seq);
  }

  /** Returns the first commit that the command with this id led to. */
  commandOf(id: string): CommandRow | undefined {
    return this.#byId.get(id);
  }

  /** Stores an event that this build cannot read, exactly as received, so that a later build can read it. */
  keepUnread(seq: number, index: number, stored: StoredEvent, outcome: 'unknown' | 'malformed'): void {
    const type = stored.type.slice(0, 200).toWellFormed();
    this.#insertUnread.run(
      seq,
      index,
      type,
      Math.min(stored.v, 2 ** 31),
      outcome,
      serialiseData(stored.data),
    );
    this.#trimUnread.run(seq - unreadKept);
  }

  /** Returns the newest stored event that this build could not read. */
  newestUnread(): UnreadRow | undefined {
    return this.#newestUnread.get();
  }

  recordSkipped(seq: number, index: number, type: string, reason: string): void {
    this.#insertAnomaly.run(seq, index, type, reason);
    this.#trimAnomalies.run(seq - anomaliesKept);
  }
}

/** Serialises event data. Returns null if the text is too long, or the data is too deeply nested to be serialised. */
function serialiseData(data: unknown): string | null {
  try {
    const text = JSON.stringify(data ?? null);
    return text.length > unreadCharactersMax ? null : text;
  } catch {
    return null;
  }
}
