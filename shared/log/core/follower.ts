/**
 * Follows one log. It reads new records, folds them in slices, and retries failures with back-off. If the log was truncated
 * or replaced, it starts again from the beginning. Options account for the differences between topics:
 *
 * | log | fatal errors | if truncated or replaced | reachable |
 * |---|---|---|---|
 * | control | all but `LogUnavailable` | stops permanently | once folded, or once its end is proven |
 * | usage, one partition | a damaged store | reads again; repetitions are recognised | once folded |
 * | gauges, counters | a fault of the fold | reads again; records are cumulative | once read |
 * | status | none | reads again; a known report changes nothing | once read |
 */
import { Backoff, within } from '../../runtime/retry.ts';
import { Waiters } from '../../runtime/waiters.ts';
import { type ControlLog, type LogRecord, LogReplaced, LogTruncated, LogUnavailable } from './control-log.ts';

const retryMs = { minMs: 50, maxMs: 1000 };
/** Pause in ms after a failed request for the log's end, before the request is repeated. */
const askAgainMs = 100;

/** Longest duration in ms of a slice: `alone` if the event loop has no other work, `among` if it also serves requests. */
const sliceMs = { alone: 5, among: 2 };
/** Longest duration in ms of an idle turn of the event loop. In a longer turn, the loop did other work. */
const idleTurnMs = 0.2;
/** Time in ms for which slices stay short after the event loop did other work, because a request may be waiting. */
const amongMs = 50;

/** A log that may reopen itself after it was replaced. `replacements` counts how often that has happened. */
export type FollowedLog = ControlLog & { readonly replacements?: number };

export interface FollowerOptions {
  readonly log: FollowedLog;
  /** Offset at which to start reading. If omitted, `begin` must return it. */
  readonly from?: number;
  /** Called before each attempt to read, with the current offset. It checks the log and returns the offset to read from. */
  readonly begin?: (position: number | undefined) => Promise<number>;
  /** Folds at least one record, and more until `budgetMs` has passed. Returns the number of records folded. */
  readonly fold: (records: readonly LogRecord[], budgetMs: number) => number;
  /** Called after each batch with its number of records. The next batch is read when the returned promise resolves. */
  readonly rest?: (records: number) => Promise<void> | undefined;
  /** Called before the log is read again from its beginning. Its earlier records may no longer exist. */
  readonly onRestart?: () => void;
  /** Decides which errors stop the follower permanently. All others are retried. */
  readonly isFatal?: (error: unknown) => boolean;
  /** Called once, when a fault has stopped the follower permanently. */
  readonly onFault?: (error: Error) => void;
  /** Whether the log counts as reachable once it is read, even if nothing is folded. If so, an idle log is reachable. */
  readonly isReachedByReading?: boolean;
  /** Called when the log can no longer be followed, and when it can be followed again. */
  readonly onReachabilityChange?: (reachable: boolean, error?: Error) => void;
}

export class Follower {
  /** Fault that has stopped the follower permanently. */
  fault: Error | undefined;
  /** Error that currently prevents the log from being followed. */
  failing: Error | undefined;
  /** Error message of the last request for the log's end. Undefined if it succeeded. */
  endFault: string | undefined;
  readonly #options: FollowerOptions;
  readonly #end = new AbortController();
  /** Wakes callers that wait for progress, after each folded slice and when the follower stops. */
  readonly #waiters = new Waiters();
  #position: number | undefined;
  #restarts = 0;
  /** Value of the log's `replacements` when `#position` was set. */
  #replacements: number | undefined;
  /** Monotonic time in ms at which the event loop was last seen doing other work. */
  #othersMs = Number.NEGATIVE_INFINITY;
  #running: Promise<void> | undefined;

  constructor(options: FollowerOptions) {
    this.#options = options;
    this.#position = options.from;
    this.#replacements = options.log.replacements;
  }

  /** Offset up to which all records are folded. */
  get position(): number {
    return this.#position ?? 0;
  }
  /** Aborts when the follower stops, whether after a fault or a call of `stop`. */
  get signal(): AbortSignal {
    return this.#end.signal;
  }

  /** Starts to follow the log. Returns immediately. */
  start(): void {
    this.#running = this.#run();
  }

  async stop(): Promise<void> {
    this.#end.abort();
    this.#waiters.wake();
    await Promise.allSettled([this.#running]);
  }

  /** Resolves to true once all records present at the call are folded, or false on timeout. Rejects if stopped. */
  async caughtUp(timeoutMs: number): Promise<boolean> {
    const untilMs = performance.now() + timeoutMs;
    let end: number | undefined;
    let restarts = this.#restarts;
    for (;;) {
      this.#checkRunning();
      // The log was replaced meanwhile, so request the end again, because the old end does not apply to the new log.
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

  /** Resolves to true once the condition holds after a slice, or false on timeout. Rejects if stopped or `client` aborts. */
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

  /** Resolves after the next slice, or after `timeoutMs`. */
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

  /** Follows the tail of the log. A tail always ends with an error, which is thrown. */
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
    throw new LogUnavailable('the log closed the stream of new records');
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
      // Rest even after a batch's last slice, because during a long backlog the tail yields its next batch in the same turn.
      await this.#rest(budgetMs);
    } while (rest.length > 0 && !this.signal.aborted);
  }

  /** Waits for an idle turn of the event loop, but hardly longer than a slice takes, so that folding gets half the time. */
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

  /** Throws the follower's fault, or `LogUnavailable` after `stop`. */
  #checkRunning(): void {
    if (this.fault) throw this.fault;
    if (this.signal.aborted) throw new LogUnavailable('the log is no longer followed here');
  }
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
