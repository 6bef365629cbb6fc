/**
 * Which sessions and sign-in links are over, from the events of the log. Not a table of the state, because nothing but
 * consoles needs it. A file remembers what was read, so that a start reads only what is new; a new replica reads the log once.
 */
import { z } from 'zod';
import type { Commit } from '../../schemas/events/commit.ts';
import type { EventTypeName } from '../../schemas/events/event-definitions.ts';
import { type EventData, readEvent, type StoredEvent } from '../../schemas/events/events.ts';
import type { Head } from '../../shared/log/core/chain.ts';
import type { ControlLog } from '../../shared/log/core/control-log.ts';
import { RemovalTime, wallClockMs } from '../../shared/runtime/clock.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { textOfNamed } from '../../shared/runtime/named-file.ts';
import { writeJsonAtomically } from '../../shared/runtime/ready-file.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { CommitReader, ReadMarks } from '../state/commits.ts';
import { linksOf, memberOf, sessionMsMax } from './subjects.ts';

/**
 * Beyond it those that end first are forgotten: what ends no later than one of them is then refused, because it may be one of
 * them.
 */
const endedMaxDefault = 100_000;
/**
 * Of one holder, so that nobody fills the list by signing in and out. Beyond it the holder's sessions that began before the
 * oldest of these ends are over, all of them; and of the holder's links those that end first are forgotten, as above.
 */
export const endedPerHolderMax = 250;
/** So much less is kept then, so that not each further one costs a search. */
const keptShare = 0.9;
const sweepMs = 60_000;
/** Between two stores of the file, which hold all. What is not stored yet is in the log. */
const storeMs = 5000;

const entrySchema = z.object({
  position: z.int().min(0),
  untilMs: z.number(),
  holder: z.string().optional(),
});
const fileBytesMax = 256 * 1024 * 1024;
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
  /** What ends up to here may have been forgotten. */
  forgottenMs: z.object({ link: z.number(), session: z.number() }).default({ link: 0, session: 0 }),
  /** The same of the links of one holder. */
  forgottenLinksMs: z.record(z.string(), z.number()).default({}),
});
type Entry = z.infer<typeof entrySchema>;

interface End extends Pick<EventData<'session.ended'>, 'kind' | 'subject' | 'holder'> {
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
function endOf(event: StoredEvent, at: string, nowMs: number): End | undefined {
  const read = readEvent(event);
  if (read.outcome !== 'known') return undefined;
  const { type, data } = read.event;
  if (type === 'session.ended') return { ...data, untilMs: Date.parse(data.until) };
  const untilMs = Date.parse(at) + sessionMsMax;
  if (!(untilMs > nowMs)) return undefined;
  if (type === 'organisation.removed') return { kind: 'person', subject: linksOf(data.id), untilMs };
  if (type !== 'member.removed') return undefined;
  const { organisation, person } = data;
  return {
    kind: 'person',
    subject: memberOf(organisation, person),
    holder: linksOf(organisation),
    untilMs,
  };
}

export interface EndedSessionsOptions {
  readonly path: string;
  readonly snapshot: Snapshot;
  readonly log: ControlLog;
  readonly logger: Logger;
  readonly endedMax?: number;
}

export class EndedSessions {
  readonly #options: EndedSessionsOptions;
  readonly #endedMax: number;
  readonly #ended = new Map<string, Entry>();
  /** Keys of the entries of each holder: of links, and of all else. */
  readonly #held = { link: new Map<string, Set<string>>(), session: new Map<string, Set<string>>() };
  #forgottenMs = { link: 0, session: 0 };
  /** By holder, until it is past or forgotten of all: each of them has a full share of the list, so they are few. */
  readonly #forgottenLinksMs = new Map<string, number>();
  #sweptMs = 0;
  readonly #removal = new RemovalTime();
  #storing: NodeJS.Timeout | undefined;
  readonly #ready: Promise<void>;
  /** Until then the file may not say that all before the present position was read. */
  #isComplete = false;

  constructor(options: EndedSessionsOptions) {
    this.#options = options;
    this.#endedMax = options.endedMax ?? endedMaxDefault;
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
    if (!this.#take(commits) || !this.#isComplete) return;
    this.#storing ??= setTimeout(() => this.#store(), storeMs).unref();
  };

  /** Stores what is not stored yet. */
  close(): void {
    if (this.#storing !== undefined) this.#store();
  }

  /** Until then `hasEnded` does not know of all that ended. */
  isReady(): boolean {
    return this.#isComplete;
  }

  /** `endsMs`: when it ends in any case. */
  hasEnded(kind: 'session' | 'link', subject: string, endsMs: number): boolean {
    return endsMs <= this.#forgottenMs[kind] || this.#ended.has(`${kind} ${subject}`);
  }

  /** Whether a link was used; `holder`: where it has one. */
  wasUsed(subject: string, endsMs: number, holder: string | undefined): boolean {
    const forgottenMs = holder === undefined ? 0 : (this.#forgottenLinksMs.get(holder) ?? 0);
    return endsMs <= forgottenMs || this.hasEnded('link', subject, endsMs);
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
    for await (const batch of reader.upTo(snapshot.seq)) this.#take(batch.map(({ commit }) => commit));
    this.#isComplete = true;
    this.#store();
  }

  /** What an earlier run stored; undefined where there is none, or it is of another log. */
  #load(): { readonly head: Head; readonly offset: number } | undefined {
    const { path, snapshot } = this.#options;
    try {
      const { head, offset, ended, ...forgotten } = fileSchema.parse(
        JSON.parse(textOfNamed(path, fileBytesMax)),
      );
      if (head.log !== snapshot.log || head.seq > snapshot.seq) return undefined;
      for (const [key, entry] of Object.entries(ended)) this.#set(key, entry);
      this.#forgottenMs = forgotten.forgottenMs;
      for (const [holder, ms] of Object.entries(forgotten.forgottenLinksMs))
        this.#forgottenLinksMs.set(holder, ms);
      return { head, offset };
    } catch {
      return undefined;
    }
  }

  #store(): void {
    clearTimeout(this.#storing);
    this.#storing = undefined;
    const { path, snapshot, logger } = this.#options;
    const forgottenMs = this.#forgottenMs;
    const ended = Object.fromEntries(this.#ended);
    try {
      writeJsonAtomically(path, {
        v: 1,
        head: snapshot.head,
        offset: snapshot.nextOffset,
        ended,
        forgottenMs,
        forgottenLinksMs: Object.fromEntries(this.#forgottenLinksMs),
      });
    } catch (error) {
      logger.warn({ err: error }, 'the ends of sessions were not stored; the next start reads the log again');
    }
  }

  /** Returns whether any of the commits ended something. */
  #take(commits: readonly Commit[]): boolean {
    let added = false;
    // A fast clock must not forget an ended session, because it would be accepted again once the clock is right.
    const lastMs = Date.parse(commits.at(-1)?.at ?? '');
    const nowMs = Math.min(this.#removal.limit(wallClockMs()), lastMs);
    for (const { seq, at, events } of commits)
      for (const event of events) {
        const end = endingTypes.has(event.type) ? endOf(event, at, nowMs) : undefined;
        if (end === undefined) continue;
        this.#end(end, seq, nowMs);
        added = true;
      }
    return added;
  }

  #end({ kind, subject, untilMs, holder }: End, position: number, nowMs: number): void {
    this.#sweep(nowMs);
    this.#add(`${kind} ${subject}`, { position, untilMs, holder });
    if (holder !== undefined) kind === 'link' ? this.#forgetLink(holder) : this.#join(holder);
    if (this.#ended.size > this.#endedMax) this.#forget();
  }

  /** The last one counts: the past is read while commits arrive. */
  #add(key: string, { position, untilMs, holder }: Entry): void {
    const before = this.#ended.get(key);
    this.#set(key, {
      position: Math.max(position, before?.position ?? 0),
      untilMs: Math.max(untilMs, before?.untilMs ?? 0),
      holder,
    });
  }

  #set(key: string, entry: Entry): void {
    this.#delete(key);
    this.#ended.set(key, entry);
    if (entry.holder === undefined) return;
    const held = this.#heldOf(key);
    const keys = held.get(entry.holder) ?? new Set<string>();
    held.set(entry.holder, keys.add(key));
  }

  #delete(key: string): void {
    const { holder } = this.#ended.get(key) ?? {};
    this.#ended.delete(key);
    if (holder === undefined) return;
    const held = this.#heldOf(key);
    held.get(holder)?.delete(key);
    if (held.get(holder)?.size === 0) held.delete(holder);
  }

  #heldOf(key: string): Map<string, Set<string>> {
    return key.startsWith('link ') ? this.#held.link : this.#held.session;
  }

  /** Where a holder has too many ends, the oldest becomes one of all the holder's sessions that began before it. */
  #join(holder: string): void {
    const keys = this.#held.session.get(holder);
    if (keys === undefined || keys.size <= endedPerHolderMax) return;
    const positionOf = (key: string): number => this.#ended.get(key)?.position ?? 0;
    const oldest = [...keys].reduce((first, key) => (positionOf(key) < positionOf(first) ? key : first));
    const entry = this.#ended.get(oldest);
    this.#delete(oldest);
    if (entry) this.#add(`person ${holder}`, { ...entry, holder: undefined });
  }

  /** Where a holder used too many links, the use of the one that ends first is forgotten. */
  #forgetLink(holder: string): void {
    const keys = this.#held.link.get(holder);
    if (keys === undefined || keys.size <= endedPerHolderMax) return;
    const endOf = (key: string): number => this.#ended.get(key)?.untilMs ?? 0;
    const first = [...keys].reduce((least, key) => (endOf(key) < endOf(least) ? key : least));
    const forgottenMs = Math.max(this.#forgottenLinksMs.get(holder) ?? 0, endOf(first));
    this.#forgottenLinksMs.set(holder, forgottenMs);
    this.#delete(first);
  }

  #sweep(nowMs: number): void {
    if (nowMs - this.#sweptMs < sweepMs) return;
    this.#sweptMs = nowMs;
    for (const [key, { untilMs }] of this.#ended) if (untilMs < nowMs) this.#delete(key);
    for (const [holder, ms] of this.#forgottenLinksMs) if (ms < nowMs) this.#forgottenLinksMs.delete(holder);
  }

  #forget(): void {
    const first = [...this.#ended].sort(([, a], [, b]) => a.untilMs - b.untilMs);
    for (const [key, { untilMs }] of first.slice(0, first.length - Math.floor(this.#endedMax * keptShare))) {
      this.#delete(key);
      // The end of all sessions of a person is forgotten as that of a session.
      const kind = key.startsWith('link ') ? 'link' : 'session';
      this.#forgottenMs[kind] = Math.max(this.#forgottenMs[kind], untilMs);
    }
    const { link, session } = this.#forgottenMs;
    for (const [holder, ms] of this.#forgottenLinksMs) if (ms <= link) this.#forgottenLinksMs.delete(holder);
    this.#options.logger.warn(
      { link, session },
      'too many sessions and links ended; some must be begun again',
    );
  }
}
