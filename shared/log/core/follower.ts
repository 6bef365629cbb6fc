/**
 * Follows one log: tails it, folds what it reads in slices, retries with back-off, and begins again where the log lost its
 * end or was replaced. What differs between the topics is in the options:
 *
 * | log | ends it for good | truncated or replaced | counts as reached |
 * |---|---|---|---|
 * | control | all but LogUnavailable | ends it | once folded, or by a proof of its end |
 * | usage, one partition | a damaged store | read again, as repeats are recognised | once folded |
 * | gauges, counters | a fault of the fold | read again, as records are cumulative | once read |
 * | status | nothing | read again, as a known report changes nothing | once read |
 */
import { Backoff, within } from '../../runtime/retry.ts';
import { Waiters } from '../../runtime/waiters.ts';
import { type ControlLog, type LogRecord, LogReplaced, LogTruncated, LogUnavailable } from './control-log.ts';

const retryMs = { minMs: 50, maxMs: 1000 };
/** How often an end is asked for again that could not be had. */
const askAgainMs = 100;

/** How long one slice of the fold may hold the event loop: where nothing else is done, and where requests are. */
const sliceMs = { alone: 5, among: 2 };
/** A turn of the event loop that took longer did something else. */
const idleTurnMs = 0.2;
/** So long after such a turn slices stay short: a request waits for its node meanwhile. */
const amongMs = 50;

/** `replacements`: how often it was found replaced, where it opens what is in its place. */
export type FollowedLog = ControlLog & { readonly replacements?: number };

export interface FollowerOptions {
  readonly log: FollowedLog;
  /** The first offset to read; where it is left out, `begin` finds it. */
  readonly from?: number;
  /** Called before each attempt to tail, with the offset so far: checks the log, and gives the offset to read from. */
  readonly begin?: (position: number | undefined) => Promise<number>;
  /** Folds records, at least the first, and returns how many: what one turn of the event loop has time for, `budgetMs`. */
  readonly fold: (records: readonly LogRecord[], budgetMs: number) => number;
  /** Called once a batch of so many records is folded; the next is read when this resolves. */
  readonly rest?: (records: number) => Promise<void> | undefined;
  /** What the log had may be gone, and it is read from its beginning. */
  readonly onRestart?: () => void;
  /** Which errors end it for good; all others are retried without end. */
  readonly isFatal?: (error: unknown) => boolean;
  /** Called once, when it ends for good. */
  readonly onFault?: (error: Error) => void;
  /** Whether a log that was read counts as reached before its records are folded, so that an idle one does. */
  readonly isReachedByReading?: boolean;
  /** Called when the log cannot be followed, and again when it can. */
  readonly onReachabilityChange?: (reachable: boolean, error?: Error) => void;
}

export class Follower {
  /** Why it ended for good. */
  fault: Error | undefined;
  /** Why the log cannot be followed now. */
  failing: Error | undefined;
  /** Why the last request for the end of the log failed. */
  endFault: string | undefined;
  readonly #options: FollowerOptions;
  readonly #end = new AbortController();
  /** Of folded slices, and of the end of it. */
  readonly #waiters = new Waiters();
  #position: number | undefined;
  #restarts = 0;
  /** Of the log that `#position` is of. */
  #replacements: number | undefined;
  /** When the event loop was last seen to do something else than to fold. */
  #othersMs = Number.NEGATIVE_INFINITY;
  #running: Promise<void> | undefined;

  constructor(options: FollowerOptions) {
    this.#options = options;
    this.#position = options.from;
    this.#replacements = options.log.replacements;
  }

  /** The offset up to which all is folded. */
  get position(): number {
    return this.#position ?? 0;
  }
  /** Aborts when it ends, by a fault or by `stop`. */
  get signal(): AbortSignal {
    return this.#end.signal;
  }

  /** Returns at once. */
  start(): void {
    this.#running = this.#run();
  }

  async stop(): Promise<void> {
    this.#end.abort();
    this.#waiters.wake();
    await Promise.allSettled([this.#running]);
  }

  /** Resolves true once all that the log held at the call is folded, false at the deadline. Rejects on a fault and once stopped. */
  async caughtUp(timeoutMs: number): Promise<boolean> {
    const untilMs = performance.now() + timeoutMs;
    let end: number | undefined;
    let restarts = this.#restarts;
    for (;;) {
      this.#checkRunning();
      // The end of a replaced log does not apply to the one in its place.
      if (restarts !== this.#restarts) end = undefined;
      restarts = this.#restarts;
      if (end === undefined) {
        const asked = await within(this.#askEnd(), untilMs - performance.now());
        if (asked !== 'late') end = asked;
      }
      if (end !== undefined && restarts === this.#restarts && this.position >= end) return true;
      const leftMs = untilMs - performance.now();
      if (leftMs <= 0) return false;
      await this.#waiters.next(Math.min(leftMs, askAgainMs));
    }
  }

  /** Resolves true once a slice made it true, false at the deadline. Rejects on a fault, once stopped, and with the reason of `client`. */
  async until(isTrue: () => boolean, timeoutMs: number, client?: AbortSignal): Promise<boolean> {
    const untilMs = performance.now() + timeoutMs;
    while (!isTrue()) {
      this.#checkRunning();
      client?.throwIfAborted();
      const leftMs = untilMs - performance.now();
      if (leftMs <= 0) return false;
      await this.#waiters.next(leftMs, client);
    }
    return true;
  }

  /** Resolves at the next slice, or after `timeoutMs`. */
  changed(timeoutMs: number): Promise<void> {
    return this.#waiters.next(timeoutMs);
  }

  setReachable(): void {
    if (this.failing === undefined) return;
    this.failing = undefined;
    this.#options.onReachabilityChange?.(true);
  }

  setUnreachable(error: Error): void {
    const wasReachable = this.failing === undefined;
    this.failing = error;
    if (wasReachable) this.#options.onReachabilityChange?.(false, error);
  }

  /** Ends it for good. */
  fail(error: unknown): void {
    if (this.fault) return;
    this.fault = asError(error);
    this.#end.abort();
    this.#waiters.wake();
    this.#options.onFault?.(this.fault);
  }

  async #run(): Promise<void> {
    const { isFatal } = this.#options;
    const backoff = new Backoff(retryMs);
    while (!this.signal.aborted) {
      try {
        await this.#tail(backoff);
      } catch (error) {
        if (this.signal.aborted) return;
        if (isFatal?.(error)) return this.fail(error);
        this.setUnreachable(asError(error));
        if (error instanceof LogTruncated || this.#isReplaced()) this.#restart();
      }
      await backoff.pause(this.signal);
    }
  }

  /** Until the log ends the tail, which it does only on an error. */
  async #tail(backoff: Backoff): Promise<void> {
    const { log, begin, rest, isReachedByReading } = this.#options;
    if (this.#isReplaced()) this.#restart();
    const from = begin ? await begin(this.#position) : this.position;
    if (this.#isReplaced()) throw new LogReplaced('the log was replaced while it was opened');
    this.#position = from;
    const onRead = isReachedByReading ? () => this.setReachable() : () => undefined;
    for await (const batch of log.tail({ from, signal: this.signal, onRead })) {
      await this.#fold(batch.records, batch.nextOffset);
      backoff.reset();
      await rest?.(batch.records.length);
    }
    throw new LogUnavailable('the log ended its tail');
  }

  async #fold(records: readonly LogRecord[], nextOffset: number): Promise<void> {
    let rest = records;
    do {
      const beganMs = performance.now();
      const isAmong = beganMs - this.#othersMs < amongMs;
      const budgetMs = isAmong ? sliceMs.among : sliceMs.alone;
      if (rest.length > 0) rest = rest.slice(this.#options.fold(rest, budgetMs));
      this.#position = rest[0]?.offset ?? nextOffset;
      this.setReachable();
      this.#waiters.wake();
      // After the last slice too: a tail with a long backlog yields its next batch in the same turn.
      await this.#rest(budgetMs);
    } while (rest.length > 0 && !this.signal.aborted);
  }

  /**
   * Until a turn of the event loop had nothing to do: the next slice then comes between requests, not between the steps of one.
   * Where there is always something to do, as long as a slice, so that the fold has half of the time.
   */
  async #rest(mostMs: number): Promise<void> {
    let turnMs = performance.now();
    const untilMs = turnMs + mostMs;
    for (;;) {
      await new Promise((resolve) => setImmediate(resolve));
      const nowMs = performance.now();
      if (nowMs - turnMs < idleTurnMs) return;
      this.#othersMs = nowMs;
      if (nowMs > untilMs) return;
      turnMs = nowMs;
    }
  }

  #isReplaced(): boolean {
    return this.#replacements !== this.#options.log.replacements;
  }

  #restart(): void {
    this.#position = 0;
    this.#restarts++;
    this.#replacements = this.#options.log.replacements;
    this.#options.onRestart?.();
  }

  async #askEnd(): Promise<number | undefined> {
    try {
      const end = await this.#options.log.end();
      this.endFault = undefined;
      return this.#isReplaced() ? undefined : end;
    } catch (error) {
      this.endFault = asError(error).message;
      return undefined;
    }
  }

  /** Throws the fault; LogUnavailable once stopped. */
  #checkRunning(): void {
    if (this.fault) throw this.fault;
    if (this.signal.aborted) throw new LogUnavailable('the log is no longer followed here');
  }
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
