/**
 * Which sessions and sign-in links are over, from the events of the log. Not a table of the state, because nothing but
 * consoles needs it. A file remembers what was read, so that a start reads only what is new; a new replica reads the log once.
 */
import { readFileSync } from 'node:fs';
import { z } from 'zod';
import type { Commit } from '../../schemas/commit.ts';
import { type EventData, readEvent } from '../../schemas/events.ts';
import type { Head } from '../../shared/log/core/chain.ts';
import type { ControlLog } from '../../shared/log/core/control-log.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { writeJsonAtomically } from '../../shared/runtime/ready-file.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { CommitReader, ReadMarks } from '../state/commits.ts';

/** Beyond it the oldest are forgotten; they end within days, and each took a signed-in person. */
const endedMax = 100_000;

const entrySchema = z.object({ position: z.int().min(0), untilMs: z.number() });
const fileSchema = z.object({
  v: z.literal(1),
  head: z.object({
    log: z.string(),
    seq: z.int().min(1),
    hash: z.string(),
    signers: z.array(z.string()),
  }),
  offset: z.int().min(0),
  /** By `kind subject`. */
  ended: z.record(z.string(), entrySchema),
});
type Entry = z.infer<typeof entrySchema>;

export interface EndedSessionsOptions {
  readonly path: string;
  readonly snapshot: Snapshot;
  readonly log: ControlLog;
  readonly logger: Logger;
}

export class EndedSessions {
  readonly #options: EndedSessionsOptions;
  readonly #ended = new Map<string, Entry>();
  readonly #ready: Promise<void>;
  /** Until then the file may not say that all before the present position was read. */
  #isComplete = false;

  constructor(options: EndedSessionsOptions) {
    this.#options = options;
    this.#ready = this.#readPast();
    // What needs it awaits it; a failure must not end the process before.
    this.#ready.catch((error: unknown) =>
      options.logger.error({ err: error }, 'the ends of sessions cannot be read, so none is accepted'),
    );
  }

  /** Rejects where the log could not be read; no session may be accepted then. */
  ready(): Promise<void> {
    return this.#ready;
  }

  /** For each batch that is folded. */
  readonly onCommits = (commits: readonly Commit[]): void => {
    if (this.#add(commits) && this.#isComplete) this.#store();
  };

  hasEnded(kind: 'session' | 'link', subject: string): boolean {
    return this.#ended.has(`${kind} ${subject}`);
  }

  /** Whether a session of this person that began at a position was ended with all of the person's sessions. */
  hasPersonEnded(person: string, position: number): boolean {
    return (this.#ended.get(`person ${person}`)?.position ?? 0) > position;
  }

  async #readPast(): Promise<void> {
    const { snapshot, log } = this.#options;
    const marks = new ReadMarks();
    const mark = this.#load();
    if (mark) marks.add(mark);
    const reader = new CommitReader(log, snapshot.log, { marks, from: (mark?.head.seq ?? 0) + 1 });
    for await (const batch of reader.upTo(snapshot.seq)) this.#add(batch.map(({ commit }) => commit));
    this.#isComplete = true;
    this.#store();
  }

  /** What an earlier run stored; undefined where there is none, or it is of another log. */
  #load(): { readonly head: Head; readonly offset: number } | undefined {
    const { path, snapshot } = this.#options;
    try {
      const { head, offset, ended } = fileSchema.parse(JSON.parse(readFileSync(path, 'utf8')));
      if (head.log !== snapshot.log || head.seq > snapshot.seq) return undefined;
      for (const [key, entry] of Object.entries(ended)) this.#ended.set(key, entry);
      return { head, offset };
    } catch {
      return undefined;
    }
  }

  #store(): void {
    const { path, snapshot, logger } = this.#options;
    const ended = Object.fromEntries(this.#ended);
    try {
      writeJsonAtomically(path, { v: 1, head: snapshot.head, offset: snapshot.nextOffset, ended });
    } catch (error) {
      logger.warn({ err: error }, 'the ends of sessions were not stored; the next start reads the log again');
    }
  }

  /** Returns whether any of the commits ended something. */
  #add(commits: readonly Commit[]): boolean {
    let added = false;
    for (const { seq, events } of commits)
      for (const event of events) {
        if (event.type !== 'session.ended') continue;
        const read = readEvent(event);
        if (read.outcome !== 'known') continue;
        this.#end(read.event.data as EventData<'session.ended'>, seq);
        added = true;
      }
    return added;
  }

  #end({ kind, subject, until }: EventData<'session.ended'>, position: number): void {
    const nowMs = Date.now();
    for (const [key, { untilMs }] of this.#ended) if (untilMs < nowMs) this.#ended.delete(key);
    const key = `${kind} ${subject}`;
    // The past is read while commits arrive.
    const last = Math.max(position, this.#ended.get(key)?.position ?? 0);
    this.#ended.set(key, { position: last, untilMs: Date.parse(until) });
    const [oldest] = this.#ended.keys();
    if (oldest !== undefined && this.#ended.size > endedMax) this.#ended.delete(oldest);
  }
}
