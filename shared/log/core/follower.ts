/**
 * Follows one log: tails it, folds its records in slices, and retries with back-off. It starts again from the beginning if
 * the log was truncated or replaced. Options set the differences between topics:
 *
 * | log | fatal errors | if truncated or replaced | reachable |
 * |---|---|---|---|
 * | control | all but LogUnavailable | stops for good | once folded, or by a proof of its end |
 * | usage, one partition | a damaged store | reads again; repeats are recognised | once folded |
 * | gauges, counters | a fault of the fold | reads again; records are cumulative | once read |
 * | status | none | reads again; a known report changes nothing | once read |
 */
import { Backoff, within } from '../../runtime/retry.ts';
import { Waiters } from '../../runtime/waiters.ts';
import { type ControlLog, type LogRecord, LogReplaced, LogTruncated, LogUnavailable } from './control-log.ts';

const retryMs = { minMs: 50, maxMs: 1000 };
/** Pause in ms before the end of the log is requested again after a failure. */
const askAgainMs = 100;

/** Longest slice of the fold in ms: if the event loop has no other work, and if it also serves requests. */
const sliceMs = { alone: 5, among: 2 };
/** Longest idle turn of the event loop in ms. A longer turn did other work. */
const idleTurnMs = 0.2;
/** Time in ms for which slices stay short after other work. A request may be waiting for its node meanwhile. */
const amongMs = 50;

/** A log that may reopen itself after it was replaced; `replacements` counts how often. */
export type FollowedLog = ControlLog & { readonly replacements?: number };

export interface FollowerOptions {
  readonly log: FollowedLog;
  /** First offset to read. If omitted, `begin` must return it. */
  readonly from?: number;
  /** Called before each attempt to tail, with the current offset. Checks the log and returns the offset to read from. */
  readonly begin?: (position: number | undefined) => Promise<number>;
  /** Folds at least the first record, and more until `budgetMs` is used up. Returns how many it folded. */
  readonly fold: (records: readonly LogRecord[], budgetMs: number) => number;
  /** Called after a batch, with its number of records. The next batch is read when the promise resolves. */
  readonly rest?: (records: number) => Promise<void> | undefined;
  /** Called before the log is read from its beginning again. Its earlier records may be gone. */
  readonly onRestart?: () => void;
  /** Decides which errors stop the follower for good. All others are retried endlessly. */
  readonly isFatal?: (error: unknown) => boolean;
  /** Called once, when the follower stops for good. */
  readonly onFault?: (error: Error) => void;
  /** Whether the log counts as reachable as soon as it has been read, before any fold. If so, an idle log is reachable. */
  readonly isReachedByReading?: boolean;
  /** Called when the log can no longer be followed, and again when it can. */
  readonly onReachabilityChange?: (reachable: boolean, error?: Error) => void;
}

export class Follower {
  /** Fault that stopped the follower for good. */
  fault: Error | undefined;
  /** Error for which the log cannot be followed now. */
  failing: Error | undefined;
  /** Error of the last request for the end of the log, if it failed. */
  endFault: string | undefined;
  readonly #options: FollowerOptions;
  readonly #end = new AbortController();
  /** Woken by each folded slice and when the follower stops. */
  readonly #waiters = new Waiters();
  #position: number | undefined;
  #restarts = 0;
  /** Number of replacements of the log that `#position` refers to. */
  #replacements: number | undefined;
  /** Last time at which the event loop was seen doing other work. */
  #othersMs = Number.NEGATIVE_INFINITY;
  #running: Promise<void> | undefined;

  constructor(options: FollowerOptions) {
    this.#options = options;
    this.#position = options.from;
    this.#replacements = options.log.replacements;
  }

  /** Offset up to which everything is folded. */
  get position(): number {
    return this.#position ?? 0;
  }
  /** Aborts when the follower stops, by a fault or by `stop`. */
  get signal(): AbortSignal {
    return this.#end.signal;
  }

  /** Starts following; returns immediately. */
  start(): void {
    this.#running = this.#run();
  }

  async stop(): Promise<void> {
    this.#end.abort();
    this.#waiters.wake();
    await Promise.allSettled([this.#running]);
  }

  /** Resolves true once all that the log contained at the call is folded, false at the deadline. Rejects if stopped. */
  async caughtUp(timeoutMs: number): Promise<boolean> {
    const untilMs = performance.now() + timeoutMs;
    let end: number | undefined;
    let restarts = this.#restarts;
    for (;;) {
      this.#checkRunning();
      // The end of a replaced log does not apply to its successor.
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

  /** Resolves true once a slice made the condition true, false at the deadline. Rejects if stopped or if `client` aborts. */
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

  /** Stops the follower for good. */
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

  /** Tails until the log ends the tail, which always throws. */
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
      // Rest even after the last slice: during a long backlog the tail yields its next batch in the same turn.
      await this.#rest(budgetMs);
    } while (rest.length > 0 && !this.signal.aborted);
  }

  /** Waits for an idle turn of the event loop, but only about as long as a slice, so that the fold gets half the time. */
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

  /** Throws the fault, or LogUnavailable once stopped. */
  #checkRunning(): void {
    if (this.fault) throw this.fault;
    if (this.signal.aborted) throw new LogUnavailable('the log is no longer followed here');
  }
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
