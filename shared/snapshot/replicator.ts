/**
 * Keeps a snapshot at the head of its log: tails, folds in slices that never hold the event loop for long, and proves
 * how fresh the snapshot is. Both planes use it, at start and live.
 * It retries transient faults (an unreachable log) with back-off, and stops for good at all others: a truncated or replaced
 * log, a fold that must halt, a file that cannot be written. `fault` is then the reason, and freshness runs out.
 */
import type { Commit } from '../../schemas/commit.ts';
import { type ControlLog, type LogBatch, LogUnavailable } from '../log/core/control-log.ts';
import type { TrustedSigners } from '../log/core/trust.ts';
import { Backoff, sleep } from '../runtime/retry.ts';
import { Waiters } from '../runtime/waiters.ts';
import { Freshness } from './freshness.ts';
import { checkIdentity, checkTrust } from './log-identity.ts';
import type { Snapshot } from './snapshot.ts';

/** The longest the fold may hold the event loop in one go. */
const sliceBudgetMs = 5;
const retryMsMin = 50;
const retryMsMax = 1000;
const probeIntervalMsDefault = 2000;
/** The interval until the first proof, and while the request fails: recovery must be noticed soon. */
const probeRetryMs = 100;

/** The next commit has an event that this build must not skip; the state before it stays as it is. */
export class FoldHalted extends Error {
  override readonly name = 'FoldHalted';
}

export interface ReplicatorOptions {
  readonly snapshot: Snapshot;
  readonly log: ControlLog;
  /** Earlier proofs of this very state; without it nothing is proven yet. */
  readonly freshness?: Freshness;
  /** One of them must have signed the first record; where left out, any log is accepted. */
  readonly trusted?: TrustedSigners | undefined;
  /** How often the end of the log is requested; 2 s unless it is given. */
  readonly probeIntervalMs?: number;
  /** Called after each folded slice that moved the position, with how long it took. */
  readonly onCommits?: (commits: readonly Commit[], seconds: number) => void;
  /** Called once, when the replicator stops for good. */
  readonly onFault?: (error: Error) => void;
  /** Called once the fold has reached an end of the log: only where it returns true does that end prove freshness. */
  readonly mayProve?: () => boolean;
  /** Called when the log cannot be reached, and again when it can. */
  readonly onReachabilityChange?: (reachable: boolean, error?: Error) => void;
}

export class Replicator {
  readonly freshness: Freshness;
  readonly #options: ReplicatorOptions;
  readonly #probeIntervalMs: number;
  readonly #stop = new AbortController();
  /** Of moves of the position, and of the end of it. */
  readonly #waiters = new Waiters();
  /** Of attempts to prove freshness that ended. */
  readonly #attempts = new Waiters();
  /** Of calls that ask for one. */
  readonly #asked = new Waiters();
  #readOffset: number;
  #endOffset = 0;
  #running: Promise<void> | undefined;
  #probing: Promise<void> | undefined;
  #fault: Error | undefined;
  #reachable = true;

  constructor(options: ReplicatorOptions) {
    this.#options = options;
    this.#probeIntervalMs = options.probeIntervalMs ?? probeIntervalMsDefault;
    this.freshness = options.freshness ?? new Freshness();
    options.snapshot.rewind();
    this.#readOffset = options.snapshot.nextOffset;
  }

  /** Why it stopped for good. */
  get fault(): Error | undefined {
    return this.#fault;
  }
  get reachable(): boolean {
    return this.#reachable;
  }
  /** End of the log when it was last requested; 0 before. */
  get endOffset(): number {
    return this.#endOffset;
  }

  /** Starts tailing and probing; returns at once. */
  start(): void {
    this.#running = this.#run();
    this.#probing = this.#probe();
  }

  /** Resolves once all that the log contained at the call is folded. Rejects on a fault, once stopped, or with LogUnavailable at the deadline. */
  async caughtUp(timeoutMs: number): Promise<void> {
    const until = performance.now() + timeoutMs;
    const end = await this.#options.log.end();
    while (this.#readOffset < end) {
      this.#checkRunning();
      const left = until - performance.now();
      if (left <= 0)
        throw new LogUnavailable(`folded to offset ${this.#readOffset} of ${end} within ${timeoutMs} ms`);
      await this.#waiters.next(Math.min(left, 250));
    }
    if (this.#fault) throw this.#fault;
  }

  /**
   * Resolves true once `seq` is folded, false at the deadline. Rejects on a fault, once stopped, and with the reason of
   * `client`, because a `false` that comes at once makes a busy loop of every loop that waits here.
   */
  async reached(seq: number, timeoutMs: number, client?: AbortSignal): Promise<boolean> {
    const until = performance.now() + timeoutMs;
    while (this.#options.snapshot.seq < seq) {
      this.#checkRunning();
      client?.throwIfAborted();
      const left = until - performance.now();
      if (left <= 0) return false;
      await this.#waiters.next(left, client);
    }
    return true;
  }

  /**
   * Asks for a proof at once, where only a wall clock that was set forward makes the last one too old. Resolves once there is
   * another, at the deadline, or where the log cannot be reached: freshness then says what holds. Never rejects.
   */
  async provenAgain(timeoutMs: number): Promise<void> {
    const until = performance.now() + timeoutMs;
    while (this.freshness.isFencedByWallClock && this.#reachable && !this.#stop.signal.aborted) {
      const left = until - performance.now();
      if (left <= 0) return;
      this.#asked.wake();
      await this.#attempts.next(left);
    }
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    this.#waiters.wake();
    this.#attempts.wake();
    await Promise.allSettled([this.#running, this.#probing]);
  }

  async #run(): Promise<void> {
    const { snapshot, log, trusted } = this.#options;
    const backoff = new Backoff({ minMs: retryMsMin, maxMs: retryMsMax });
    while (!this.#stop.signal.aborted) {
      try {
        await checkIdentity(log, snapshot);
        if (trusted) await checkTrust(log, snapshot, trusted);
        await this.#follow(() => backoff.reset());
      } catch (error) {
        if (this.#stop.signal.aborted) return;
        if (!(error instanceof LogUnavailable)) return this.#fail(error);
        this.#setReachable(false, error);
        await backoff.pause(this.#stop.signal);
      }
    }
  }

  /** Tails until the log ends the tail, which it does only on an error. */
  async #follow(onBatch: () => void): Promise<void> {
    const { snapshot, log } = this.#options;
    for await (const batch of log.tail({ from: this.#readOffset, signal: this.#stop.signal })) {
      onBatch();
      this.#setReachable(true);
      await this.#fold(batch);
      if (snapshot.halt)
        throw new FoldHalted(`the fold halted at commit ${snapshot.halt.seq}: ${snapshot.halt.reason}`);
    }
    throw new LogUnavailable('the log ended its tail');
  }

  async #fold(batch: LogBatch): Promise<void> {
    const { snapshot, trusted, onCommits } = this.#options;
    let rest = batch.records;
    if (snapshot.seq === 0) trusted?.checkBeginning(rest);
    while (rest.length > 0 && !this.#stop.signal.aborted) {
      const beganMs = performance.now();
      const { consumed, accepted } = snapshot.apply(rest, sliceBudgetMs);
      const seconds = (performance.now() - beganMs) / 1000;
      rest = rest.slice(consumed);
      this.#readOffset = snapshot.nextOffset;
      if (accepted.length > 0) onCommits?.(accepted, seconds);
      this.#waiters.wake();
      if (snapshot.halt) return;
      // After the last slice too: a tail with a long backlog yields its next batch in the same turn.
      await new Promise((resolve) => setImmediate(resolve));
    }
    if (rest.length === 0) this.#readOffset = Math.max(this.#readOffset, batch.nextOffset);
    this.#waiters.wake();
  }

  async #probe(): Promise<void> {
    while (!this.#stop.signal.aborted && !this.#fault) {
      let isAway = false;
      const asked = this.#asked.changes;
      try {
        await this.#prove();
      } catch (error) {
        if (!(error instanceof LogUnavailable)) return this.#fail(error);
        this.#setReachable(false, error);
        isAway = true;
      }
      this.#attempts.wake();
      const restMs = this.#probeIntervalMs - probeRetryMs;
      await sleep(restMs < 0 ? this.#probeIntervalMs : probeRetryMs, this.#stop.signal);
      const isSoon = isAway || !this.freshness.proven || this.#asked.changes !== asked;
      if (!isSoon && restMs > 0) await this.#asked.next(restMs, this.#stop.signal);
    }
  }

  /** Read-index: an end that was requested after moment `m`, and that the fold then reached, proves freshness as of `m`. */
  async #prove(): Promise<void> {
    const { snapshot, log, mayProve = () => true } = this.#options;
    const moment = this.freshness.now();
    const readBefore = this.#readOffset;
    const end = await log.end();
    this.#endOffset = end;
    // A log that ends before the offset that was read is not the one that was read: its end proves nothing.
    if (end < readBefore) throw new LogUnavailable(`the log ends at ${end}, before offset ${readBefore}`);
    const until = performance.now() + this.#probeIntervalMs;
    while (this.#readOffset < end && performance.now() < until && !this.#stop.signal.aborted)
      await this.#waiters.next(until - performance.now());
    if (this.#readOffset < end || this.#fault || snapshot.halt) return;
    // An idle log yields no batch that would show that it is reachable.
    this.#setReachable(true);
    if (mayProve()) this.freshness.prove(moment);
  }

  /** Throws the fault; LogUnavailable once stopped. */
  #checkRunning(): void {
    if (this.#fault) throw this.#fault;
    if (this.#stop.signal.aborted) throw new LogUnavailable('the log is no longer followed here');
  }

  #setReachable(reachable: boolean, error?: Error): void {
    if (reachable === this.#reachable) return;
    this.#reachable = reachable;
    this.#options.onReachabilityChange?.(reachable, error);
  }

  #fail(error: unknown): void {
    if (this.#fault) return;
    this.#fault = error instanceof Error ? error : new Error(String(error));
    this.#stop.abort();
    this.#waiters.wake();
    this.#options.onFault?.(this.#fault);
  }
}
