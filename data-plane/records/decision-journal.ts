/**
 * Journal of a gateway's decisions during the last day, stored in segment files. Adding a decision is one push to a list, so
 * no request waits for it or fails because of it. Another thread compresses and writes. If that thread falls behind,
 * decisions are dropped and counted.
 */
import { setImmediate } from 'node:timers/promises';
import type { DecisionRecord } from '../../schemas/records/decisions.ts';
import type { RecordedRequest } from '../../schemas/records/request-record.ts';
import { isListing } from '../../shared/decision/model-listing.ts';
import { RateLimit, type RateLimitSize } from '../../shared/runtime/rate-limit.ts';
import { within } from '../../shared/runtime/retry.ts';
import { outcomeOf, type RequestRecord } from '../request/request-record.ts';
import type { ReadGroup, RecordGroup } from '../usage/segment-frame.ts';
import { SegmentLog } from '../usage/segment-log.ts';
import { toDecisionRecord } from './project.ts';
import { groupHeading, parseId, parseRequests, RecordGroupBuffer, timeCell } from './record-group.ts';

/** Number of decisions after which a group is sent to the writing thread, and the longest time in ms until it is sent. */
const groupMax = 500;
const groupMs = 500;
/** Maximum number of decisions that the writing thread has not written yet. Further decisions are dropped. */
const unwrittenMax = 20_000;
const answerTimeoutMs = 5_000;
const closeTimeoutMs = 2_000;
/** Maximum number of simultaneous queries to the journal, because each holds a segment in memory. */
const asksMax = 4;

/** Limits on recording requests that anyone can send. A day's requests at these rates fit into the journal's files. */
const limitsDefault: DecisionLimits = {
  unknown: { burst: 10_000, perSecond: 5 },
  visitor: { burst: 10_000, perSecond: 5 },
  fenced: { burst: 100_000, perSecond: 5 },
};

/** Thrown if the journal cannot answer, because it is closed, has too many queries, or cannot read its files. */
export class JournalSilent extends Error {
  override readonly name = 'JournalSilent';
}

/** Kind of decision whose recording is limited: by a visitor, without a known key, or refused by a fenced gateway. */
type LimitedKind = 'unknown' | 'visitor' | 'fenced';
type DecisionLimits = Readonly<Record<LimitedKind, RateLimitSize>>;

export interface DecisionJournalOptions {
  readonly folder: string;
  /** Name of this gateway, which every decision record contains. */
  readonly gateway: string;
  /** One in this many completed requests is recorded. All other requests are recorded, within the limits. */
  readonly oneIn: number;
  readonly limits?: DecisionLimits;
}

export class DecisionJournal {
  readonly #options: DecisionJournalOptions;
  readonly #log: SegmentLog;
  readonly #limits: Readonly<Record<LimitedKind, RateLimit>>;
  readonly #group = new RecordGroupBuffer(groupMax);
  #timer: NodeJS.Timeout | undefined;
  /** Resolves when every decision handed to the writing thread so far has been written or dropped. */
  #writing = Promise.resolve();
  #completed = 0;
  #unwritten = 0;
  #written = 0;
  #dropped = 0;
  #asks = 0;
  readonly #followers = new Set<(request: RecordedRequest) => void>();
  #isClosed = false;

  constructor(options: DecisionJournalOptions) {
    this.#options = options;
    const { unknown, visitor, fenced } = options.limits ?? limitsDefault;
    this.#limits = {
      unknown: new RateLimit(unknown),
      visitor: new RateLimit(visitor),
      fenced: new RateLimit(fenced),
    };
    this.#log = new SegmentLog(options.folder, { heading: groupHeading });
  }

  /** Numbers of decisions written and dropped since the process started, and the size of the files in bytes. */
  get state(): { readonly written: number; readonly dropped: number; readonly bytes: number } {
    return { written: this.#written, dropped: this.#dropped, bytes: this.#log.bytes };
  }

  /** Records the decision on a request that has ended, unless sampling or a limit leaves it out. Never throws. */
  add(record: RequestRecord, recorded: RecordedRequest): void {
    const isPlain = outcomeOf(record) === 'served';
    if (isPlain && this.#options.oneIn > 1 && this.#completed++ % this.#options.oneIn !== 0) return;
    const limitedKind = limitedKindOf(record);
    if (limitedKind !== undefined && !this.#isWithinLimit(limitedKind)) return;
    if (this.#hasRoom()) this.#push(recorded);
  }

  /** Records a request that was refused before it was handled, such as invalid HTTP. Never throws. */
  addEarly(recorded: RecordedRequest): void {
    if (this.#isWithinLimit('unknown') && this.#hasRoom()) this.#push(recorded);
  }

  /** Whether another decision can be held until it is written. If not, counts it as dropped. */
  #hasRoom(): boolean {
    if (!this.#isClosed && this.#unwritten < unwrittenMax) return true;
    this.#dropped++;
    return false;
  }

  /** Whether this kind's limit allows another decision. If not, it counts as dropped, which keeps room for known callers. */
  #isWithinLimit(kind: LimitedKind): boolean {
    if (this.#limits[kind].tryAcquire()) return true;
    this.#dropped++;
    return false;
  }

  /** Calls `follower` with every decision recorded from now on. Returns a function that ends the calls. */
  follow(follower: (request: RecordedRequest) => void): () => void {
    this.#followers.add(follower);
    return () => this.#followers.delete(follower);
  }

  #push(decision: RecordedRequest): void {
    if (this.#followers.size > 0) for (const follower of this.#followers) follower(decision);
    if (!this.#group.add(decision)) {
      void this.#send();
      if (!this.#group.add(decision)) {
        this.#dropped++;
        return;
      }
    }
    if (this.#group.count === 1) this.#timer = setTimeout(() => void this.#send(), groupMs).unref();
    else if (this.#group.count >= groupMax) void this.#send();
  }

  /** Finds the decision on a request by its id. Throws `JournalSilent`. */
  async find(req: string): Promise<DecisionRecord | undefined> {
    const request = await this.findKept(req);
    return request && toDecisionRecord(request, this.#options.gateway);
  }

  /** Finds a request by its id, in its stored form, in which unknown values are null. Throws `JournalSilent`. */
  async findKept(req: string): Promise<readonly unknown[] | undefined> {
    const id = parseId(req);
    if (id === undefined) return undefined;
    const written = this.#send();
    const found = await this.#ask(() => written.then(() => this.#log.find(id)));
    return found && parseRequests(found.group)[found.at];
  }

  /** Yields the stored groups that begin before position `before`, newest first. Throws `JournalSilent`. */
  async *backwards(before: number, sinceMs: number): AsyncIterable<ReadGroup> {
    const written = this.#send();
    const groups = this.#log.backwards(before, sinceMs);
    for (;;) {
      const { value: group } = await this.#ask(() => written.then(() => groups.next()));
      if (group === undefined) return;
      yield group;
      await setImmediate();
    }
  }

  get gateway(): string {
    return this.#options.gateway;
  }

  get oneIn(): number {
    return this.#options.oneIn;
  }

  /** Yields the decisions made since `sinceMs`, group by group, oldest first. Throws `JournalSilent`. */
  async *since(sinceMs: number): AsyncIterable<readonly DecisionRecord[]> {
    const written = this.#send();
    const groups = this.#log.since(sinceMs);
    for (;;) {
      const { value: group } = await this.#ask(() => written.then(() => groups.next()));
      if (group === undefined) return;
      yield parseRequests(group)
        .filter((request) => Number(request[timeCell]) >= sinceMs)
        .map((request) => toDecisionRecord(request, this.#options.gateway));
      // Let waiting requests run before the next group, because a segment may contain thousands of small groups.
      await setImmediate();
    }
  }

  /** Writes the remaining decisions and closes the files, but waits at most two seconds for each of the two. */
  async close(): Promise<void> {
    const written = this.#send();
    this.#isClosed = true;
    await within(written, closeTimeoutMs);
    await within(this.#log.close(), closeTimeoutMs);
  }

  /** Hands the current group to the writing thread. Resolves when every decision so far has been written or dropped. */
  #send(): Promise<void> {
    clearTimeout(this.#timer);
    if (this.#group.count > 0) {
      const group = this.#group.take();
      this.#unwritten += group.count;
      this.#writing = this.#writing.then(() => this.#write(group));
    }
    return this.#writing;
  }

  async #write(group: RecordGroup): Promise<void> {
    try {
      await this.#log.append(group, performance.now());
      this.#written += group.count;
    } catch {
      this.#dropped += group.count;
    }
    this.#unwritten -= group.count;
  }

  /** Runs a query. It counts as open until the disk has answered, because it keeps the disk busy even if abandoned. */
  async #ask<Answer>(question: () => Promise<Answer>): Promise<Answer> {
    if (this.#isClosed || this.#asks >= asksMax)
      throw new JournalSilent('the decision journal is busy or was closed');
    this.#asks++;
    const asked = question().finally(() => this.#asks--);
    const answer = await within(asked, answerTimeoutMs).catch(() => 'late' as const);
    if (answer === 'late') throw new JournalSilent('the decision journal did not answer');
    return answer;
  }
}

/** Kind of decision whose recording is limited, or undefined if the key is known or a visitor's turn was used. */
function limitedKindOf({ caller, refusal, operation }: RequestRecord): LimitedKind | undefined {
  if (caller?.kind === 'key' || refusal?.keyId !== undefined) return undefined;
  if (caller?.kind === 'anonymous') {
    const lists = operation !== undefined && isListing(operation);
    return refusal !== undefined || lists ? 'visitor' : undefined;
  }
  // A fenced gateway refuses any credential with 503 (`fenced`), and a request without one with 401 (`unknown`).
  return refusal?.cause === 'fenced' ? 'fenced' : 'unknown';
}
