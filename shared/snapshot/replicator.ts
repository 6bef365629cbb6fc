/**
 * Keeps a snapshot up to date with its log. It reads the log, folds in short slices so that the event loop stays free, and
 * proves how fresh the snapshot is. It retries temporary faults: an unreachable log and, in a control plane, a disk that
 * refuses a write. Any other fault stops it permanently. Then `fault` contains the reason, and no new proofs are made.
 */
import type { Commit } from '../../schemas/events/commit.ts';
import { type ControlLog, type LogRecord, LogUnavailable } from '../log/core/control-log.ts';
import { Follower } from '../log/core/follower.ts';
import type { TrustedSigners } from '../log/core/trust.ts';
import { sleep } from '../runtime/retry.ts';
import { DatabaseUnwritable } from '../runtime/sqlite.ts';
import { Waiters } from '../runtime/waiters.ts';
import { Freshness } from './freshness.ts';
import { checkIdentity, checkTrust } from './log-identity.ts';
import type { Snapshot } from './snapshot.ts';

const probeIntervalMsDefault = 2000;
/** Interval in ms between probes of the log's end before the first proof and after failures, to notice recovery soon. */
const probeRetryMs = 100;

/** Thrown if the next commit contains an event that this build must not skip. The state before that commit remains. */
export class FoldHalted extends Error {
  override readonly name = 'FoldHalted';
}

export interface ReplicatorOptions {
  readonly snapshot: Snapshot;
  readonly log: ControlLog;
  /** Earlier proofs of this snapshot's freshness. If omitted, nothing has been proven yet. */
  readonly freshness?: Freshness;
  /** Trusted signers, one of whom must have signed the log's first record. If omitted, any log is accepted. */
  readonly trusted?: TrustedSigners | undefined;
  /** Interval in ms between requests for the end of the log. The default is 2 s. */
  readonly probeIntervalMs?: number;
  /** Called after each slice that folded commits, with its duration in seconds and whether the whole batch is folded. */
  readonly onCommits?: (commits: readonly Commit[], seconds: number, isBatchFolded: boolean) => void;
  /** Whether to retry a write that the disk refuses. Otherwise a refused write stops the replicator. */
  readonly waitsForDisk?: boolean;
  /** Called once, when a fault has stopped the replicator for good. */
  readonly onFault?: (error: Error) => void;
  /** Called when the fold has reached the requested end of the log. Freshness is proven only if this returns true. */
  readonly mayProve?: () => boolean;
  /** Called when the log becomes unreachable or reachable again. */
  readonly onReachabilityChange?: (reachable: boolean, error?: Error) => void;
}

export class Replicator {
  readonly freshness: Freshness;
  readonly #options: ReplicatorOptions;
  readonly #probeIntervalMs: number;
  readonly #follower: Follower;
  /** Wakes callers after each attempt to prove freshness. */
  readonly #attempts = new Waiters();
  /** Wakes the loop that probes the log's end when a caller requests a proof. */
  readonly #asked = new Waiters();
  #endOffset = 0;
  #logMs: number | undefined;
  #probing: Promise<void> | undefined;

  constructor(options: ReplicatorOptions) {
    const { snapshot, log, onFault, onReachabilityChange, waitsForDisk = false } = options;
    this.#options = options;
    this.#probeIntervalMs = options.probeIntervalMs ?? probeIntervalMsDefault;
    this.freshness = options.freshness ?? new Freshness();
    snapshot.rewind();
    this.#follower = new Follower({
      log,
      from: snapshot.nextOffset,
      begin: () => this.#check(),
      fold: (records, budgetMs) => this.#fold(records, budgetMs),
      isFatal: (error) =>
        !(error instanceof LogUnavailable || (waitsForDisk && error instanceof DatabaseUnwritable)),
      ...(onFault && { onFault }),
      ...(onReachabilityChange && { onReachabilityChange }),
    });
  }

  /** Fault that has stopped the replicator permanently, or the disk error of the write that it is retrying. */
  get fault(): Error | undefined {
    return this.#follower.fault ?? this.#refusedByDisk;
  }
  get reachable(): boolean {
    return this.#follower.failing === undefined || this.#refusedByDisk !== undefined;
  }
  get #refusedByDisk(): DatabaseUnwritable | undefined {
    const { failing } = this.#follower;
    return failing instanceof DatabaseUnwritable ? failing : undefined;
  }
  /** End of the log when it was last requested. 0 before the first request. */
  get endOffset(): number {
    return this.#endOffset;
  }

  /** Time when the last folded record was appended, by the log's clock. undefined until this process has folded a record. */
  get logMs(): number | undefined {
    return this.#logMs;
  }

  /** Starts reading the log and proving freshness. Returns immediately. */
  start(): void {
    this.#follower.start();
    this.#probing = this.#probe();
  }

  /** Resolves once everything in the log at the time of the call is folded. Rejects on a fault, timeout or stop. */
  async caughtUp(timeoutMs: number): Promise<void> {
    const untilMs = performance.now() + timeoutMs;
    const end = await this.#options.log.end();
    if (this.fault) throw this.fault;
    if (!(await this.hasRead(end, untilMs - performance.now())))
      throw new LogUnavailable(
        `folded to offset ${this.#follower.position} of ${end} within ${timeoutMs} ms`,
      );
    if (this.fault) throw this.fault;
  }

  /** Resolves to true once commit `seq` is folded, or false on timeout. Rejects on a fault or stop, or if `client` aborts. */
  reached(seq: number, timeoutMs: number, client?: AbortSignal): Promise<boolean> {
    return this.#follower.until(() => this.#options.snapshot.seq >= seq, timeoutMs, client);
  }

  /** Requests a new proof if the last is too old by the wall clock alone. Never rejects, so check `freshness` after it. */
  async provenAgain(timeoutMs: number): Promise<void> {
    const until = performance.now() + timeoutMs;
    while (this.freshness.isFencedByWallClock && this.reachable && !this.#follower.signal.aborted) {
      const left = until - performance.now();
      if (left <= 0) return;
      this.#asked.wake();
      await this.#attempts.next(left);
    }
  }

  async stop(): Promise<void> {
    const stopped = this.#follower.stop();
    this.#attempts.wake();
    await Promise.all([stopped, this.#probing]);
  }

  /** Checks that the log is the one that was folded, and that a trusted signer signed its first record. */
  async #check(): Promise<number> {
    const { snapshot, log, trusted } = this.#options;
    await checkIdentity(log, snapshot);
    if (trusted) await checkTrust(log, snapshot, trusted);
    return this.#follower.position;
  }

  #fold(records: readonly LogRecord[], budgetMs: number): number {
    const { snapshot, trusted, onCommits } = this.#options;
    if (snapshot.seq === 0) trusted?.checkBeginning(records);
    const beganMs = performance.now();
    const { consumed, accepted } = snapshot.apply(records, budgetMs);
    const seconds = (performance.now() - beganMs) / 1000;
    this.#logMs = records[consumed - 1]?.atMs ?? this.#logMs;
    if (accepted.length > 0) onCommits?.(accepted, seconds, consumed === records.length);
    if (snapshot.halt)
      throw new FoldHalted(`the fold halted at commit ${snapshot.halt.seq}: ${snapshot.halt.reason}`);
    return consumed;
  }

  /** Resolves to true once all records before `end` are folded, or false on timeout. Rejects on a fault or stop. */
  hasRead(end: number, timeoutMs: number): Promise<boolean> {
    return this.#follower.until(() => this.#follower.position >= end, timeoutMs);
  }

  async #probe(): Promise<void> {
    while (!this.#follower.signal.aborted) {
      let isAway = false;
      const asked = this.#asked.changes;
      try {
        await this.#prove();
      } catch (error) {
        if (!(error instanceof LogUnavailable)) return this.#follower.fail(error);
        this.#follower.setUnreachable(error);
        isAway = true;
      }
      this.#attempts.wake();
      const restMs = this.#probeIntervalMs - probeRetryMs;
      await sleep(restMs < 0 ? this.#probeIntervalMs : probeRetryMs, this.#follower.signal);
      const isSoon = isAway || !this.freshness.proven || this.#asked.changes !== asked;
      if (!isSoon && restMs > 0) await this.#asked.next(restMs, this.#follower.signal);
    }
  }

  /** Requests the log's end and, once everything before it is folded, proves freshness as of the moment of the request. */
  async #prove(): Promise<void> {
    const { snapshot, log, mayProve = () => true } = this.#options;
    const moment = this.freshness.now();
    const readBefore = this.#follower.position;
    const end = await log.end();
    this.#endOffset = end;
    // A log that ends before the offset already read is not the log that was folded, so its end proves nothing.
    if (end < readBefore) throw new LogUnavailable(`the log ends at ${end}, before offset ${readBefore}`);
    const isRead = await this.hasRead(end, this.#probeIntervalMs).catch(() => false);
    if (!isRead || this.fault || snapshot.halt) return;
    // An idle log sends no batches that would show that it is reachable again.
    this.#follower.setReachable();
    if (mayProve()) this.freshness.prove(moment);
  }
}
