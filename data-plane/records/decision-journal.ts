/**
 * The decision journal of a gateway: what it decided in the last day, on a thread of its own. Adding a decision is one push;
 * no request waits for it or fails for it. Where the thread or its disk cannot follow, decisions are dropped and counted.
 */
import type { DecisionRecord } from '../../schemas/decisions.ts';
import type { RecordedRequest } from '../../schemas/request-record.ts';
import { isListing } from '../../shared/decision/model-listing.ts';
import { RateLimit, type RateLimitSize } from '../../shared/runtime/rate-limit.ts';
import { WorkerThread } from '../../shared/runtime/worker-thread.ts';
import type { RequestRecord } from '../request/gateway.ts';
import { DecisionGroupBuffer } from './decision-group.ts';
import { type JournalEvent, type JournalRequest, serveJournal } from './journal-thread.ts';
import { decisionOf } from './project.ts';

/** Decisions are sent in groups of so many, or after so long. */
const groupMax = 500;
const groupMs = 500;
/** Sent and not written yet; further ones are dropped. */
const unwrittenMax = 20_000;
const answerTimeoutMs = 5_000;
const closeTimeoutMs = 2_000;
/** By default a thread takes as much memory for young objects as the process. */
const threadYoungMegabytes = 4;
/** Questions that the thread has: more would keep it from writing. */
const asksMax = 4;

/**
 * What costs its caller neither a key nor a turn is kept so often, because anybody can cause as many as the network carries. All
 * three kinds together fill less in a day than the file may hold.
 */
const limitsDefault: DecisionLimits = {
  unknown: { burst: 10_000, perSecond: 5 },
  visitor: { burst: 10_000, perSecond: 5 },
  fenced: { burst: 100_000, perSecond: 5 },
};

/** The journal did not answer: its thread is busy or has ended, or its file cannot be read. */
export class JournalSilent extends Error {
  override readonly name = 'JournalSilent';
}

/**
 * `visitor`: of a visitor. `fenced`: of a credential that a fenced gateway did not check, so perhaps of a customer. `unknown`: of
 * all others without a key.
 */
type LimitedKind = 'unknown' | 'visitor' | 'fenced';
type DecisionLimits = Readonly<Record<LimitedKind, RateLimitSize>>;

export interface DecisionJournalOptions {
  readonly path: string;
  /** The name in each record. */
  readonly gateway: string;
  /** Of completed requests one in so many is kept; of all others each, but of limited kinds so many a second. */
  readonly oneIn: number;
  readonly limits?: DecisionLimits;
  /** Called once where the thread cannot be started or ends by itself: later decisions are dropped. */
  readonly onEnd: (reason: unknown) => void;
}

export class DecisionJournal {
  readonly #options: DecisionJournalOptions;
  /** Undefined where the system grants no thread. */
  readonly #thread: WorkerThread<JournalRequest, JournalEvent> | undefined;
  readonly #asks = new Map<number, (rows: Row[] | undefined) => void>();
  readonly #limits: Readonly<Record<LimitedKind, RateLimit>>;
  readonly #group = new DecisionGroupBuffer(groupMax);
  #timer: NodeJS.Timeout | undefined;
  #completed = 0;
  #sent = 0;
  #settled = 0;
  #written = 0;
  #dropped = 0;
  #bytes = 0;
  #asked = 0;
  #isClosing = false;
  #isEnded = false;

  constructor(options: DecisionJournalOptions) {
    this.#options = options;
    const { unknown, visitor, fenced } = options.limits ?? limitsDefault;
    this.#limits = {
      unknown: new RateLimit(unknown),
      visitor: new RateLimit(visitor),
      fenced: new RateLimit(fenced),
    };
    this.#thread = this.#start();
  }

  #start(): WorkerThread<JournalRequest, JournalEvent> | undefined {
    const data = { path: this.#options.path };
    try {
      const thread = new WorkerThread<JournalRequest, JournalEvent>({
        entry: new URL('./worker-entry.js', import.meta.url),
        data,
        limits: { maxYoungGenerationSizeMb: threadYoungMegabytes },
        serve: (port) => serveJournal(port, data),
        onEvent: (event) => this.#onEvent(event),
        isRef: false,
      });
      void thread.ended.then(({ error, exitCode }) => this.#end(error ?? exitCode));
      return thread;
    } catch (error) {
      this.#end(error);
      return undefined;
    }
  }

  #end(reason: unknown): void {
    this.#isEnded = true;
    if (!this.#isClosing) this.#options.onEnd(reason);
  }

  /** Counts since the start, and bytes of the file. */
  get state(): { readonly written: number; readonly dropped: number; readonly bytes: number } {
    return { written: this.#written, dropped: this.#dropped, bytes: this.#bytes };
  }

  /** Keeps the decision of a request that has ended. Never throws. */
  add(record: RequestRecord, recorded: RecordedRequest): void {
    const isPlain = record.refusal === undefined && record.outcome?.kind !== 'ended-early';
    if (isPlain && this.#options.oneIn > 1 && this.#completed++ % this.#options.oneIn !== 0) return;
    const limitedKind = limitedKindOf(record);
    if (limitedKind !== undefined && !this.#hasRoomFor(limitedKind)) return;
    if (this.#hasRoom()) this.#push(recorded);
  }

  /** Keeps a refusal that was answered before there was a request. Never throws. */
  addEarly(recorded: RecordedRequest): void {
    if (this.#hasRoomFor('unknown') && this.#hasRoom()) this.#push(recorded);
  }

  /** Counts what is dropped where there is none. */
  #hasRoom(): boolean {
    if (!this.#isEnded && this.#sent - this.#settled < unwrittenMax) return true;
    this.#dropped++;
    return false;
  }

  /** Counts what is dropped where there is none, so that unknown callers do not push out what others ask about. */
  #hasRoomFor(kind: LimitedKind): boolean {
    if (this.#limits[kind].tryAcquire()) return true;
    this.#dropped++;
    return false;
  }

  #push(decision: RecordedRequest): void {
    if (!this.#group.add(decision)) {
      this.#send();
      this.#group.add(decision);
    }
    if (this.#group.count === 1) this.#timer = setTimeout(() => this.#send(), groupMs).unref();
    else if (this.#group.count >= groupMax) this.#send();
  }

  /** Throws JournalSilent. */
  async find(req: string): Promise<DecisionRecord | undefined> {
    this.#send();
    const [row] = await this.#ask((ask) => ({ kind: 'find', ...ask, req }));
    return row && decisionOf(JSON.parse(row.cells) as unknown[], this.#options.gateway);
  }

  /** Oldest first, page by page. Throws JournalSilent. */
  async *since(sinceMs: number): AsyncIterable<readonly DecisionRecord[]> {
    this.#send();
    let after = 0;
    for (;;) {
      const from = after;
      const rows = await this.#ask((ask) => ({ kind: 'page', ...ask, after: from, sinceMs }));
      const last = rows.at(-1);
      if (last === undefined) return;
      yield rows.map(({ cells }) => decisionOf(JSON.parse(cells) as unknown[], this.#options.gateway));
      after = last.id;
    }
  }

  /** Writes what is left; bounded in time. */
  async close(): Promise<void> {
    this.#send();
    this.#isClosing = true;
    if (!this.#isEnded) await this.#thread?.close({ kind: 'close' }, closeTimeoutMs);
    await this.#thread?.terminate();
  }

  #send(): void {
    clearTimeout(this.#timer);
    const { count } = this.#group;
    if (count === 0) return;
    this.#sent += count;
    const group = this.#group.take();
    this.#post({ kind: 'decisions', ...group }, [group.ids.buffer, group.text.buffer]);
  }

  /** Counts until the thread answers, however long that takes: a question that nobody waits for keeps it busy all the same. */
  #ask(request: (ask: { readonly ask: number; readonly untilMs: number }) => JournalRequest): Promise<Row[]> {
    if (this.#isEnded || this.#asks.size >= asksMax)
      return Promise.reject(new JournalSilent('the decision journal is busy or has ended'));
    const ask = this.#asked++;
    return new Promise((resolve, reject) => {
      const silent = (): void => reject(new JournalSilent('the decision journal did not answer'));
      const late = setTimeout(silent, answerTimeoutMs);
      this.#asks.set(ask, (rows) => {
        clearTimeout(late);
        if (rows === undefined) silent();
        else resolve(rows);
      });
      this.#post(request({ ask, untilMs: Date.now() + answerTimeoutMs }));
    });
  }

  #answer(ask: number, rows: string | undefined): void {
    const settle = this.#asks.get(ask);
    this.#asks.delete(ask);
    settle?.(rows === undefined ? undefined : (JSON.parse(rows) as Row[]));
  }

  #post(request: JournalRequest, moved: readonly ArrayBuffer[] = []): void {
    if (!this.#isEnded) this.#thread?.post(request, moved);
  }

  #onEvent(event: JournalEvent): void {
    if (event.kind === 'answer') this.#answer(event.ask, event.rows);
    else if (event.kind === 'state') {
      this.#settled += event.written + event.dropped;
      this.#written += event.written;
      this.#dropped += event.dropped;
      if (event.written > 0) this.#bytes = event.bytes;
    }
  }
}

/** Undefined where a key is known, or a visitor's request used a turn. */
function limitedKindOf({ caller, refusal, operation }: RequestRecord): LimitedKind | undefined {
  if (caller?.kind === 'key' || refusal?.keyId !== undefined) return undefined;
  if (caller?.kind === 'anonymous') {
    const lists = operation !== undefined && isListing(operation);
    return refusal !== undefined || lists ? 'visitor' : undefined;
  }
  // A fenced gateway refuses what carries no credential with 401, and all credentials alike with 503.
  return refusal?.cause === 'fenced' ? 'fenced' : 'unknown';
}

interface Row {
  readonly id: number;
  readonly cells: string;
}
