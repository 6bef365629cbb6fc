/**
 * Keeps a gateway's snapshot up to date with the log, and recovers from faults while the gateway serves requests.
 * supervisor-state.ts contains the table of states.
 * - `quarantined`: the snapshot differs from its digests or from a checkpoint, or its position is wrong. No keys are accepted
 *   until it is rebuilt. In all other states, the snapshot gets older and the stale policy decides.
 * - `refusing-log`: the log was replaced or truncated, or is another one. Nothing is folded until the right log is back.
 * - `unwritable`: the snapshot's file cannot be written. Writing is retried.
 * - `halted`: the next event in the log is critical, and this build does not know it.
 */
import type { Commit } from '../../schemas/events/commit.ts';
import type { LogText } from '../../schemas/records/log-events.ts';
import {
  type ControlLog,
  LogReplaced,
  LogTruncated,
  LogUnavailable,
} from '../../shared/log/core/control-log.ts';
import type { TrustedSigners } from '../../shared/log/core/trust.ts';
import { openLog } from '../../shared/log/open-log.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { sleep } from '../../shared/runtime/retry.ts';
import { DatabaseBusy, DatabaseUnwritable } from '../../shared/runtime/sqlite.ts';
import type { FoldMetrics } from '../../shared/snapshot/fold-metrics.ts';
import { checkIdentity, readGenesis, WrongPosition } from '../../shared/snapshot/log-identity.ts';
import type { Lookup } from '../../shared/snapshot/lookup.ts';
import { FoldHalted, type Replicator } from '../../shared/snapshot/replicator.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import type { StatusPublisher } from '../../shared/status/status-publisher.ts';
import { ActiveSnapshot, liveLookup } from './active-snapshot.ts';
import { type SnapshotIntervals, snapshotIntervals } from './intervals.ts';
import { rebuildBeside, swapSnapshot } from './rebuild.ts';
import {
  type FaultEvent,
  type FaultState,
  faultState,
  recoveryOf,
  type SupervisorEvent,
  type SupervisorState,
  transition,
} from './supervisor-state.ts';

interface SnapshotFault {
  readonly state: FaultState;
  readonly reason: string;
  /** Whether the rebuild must not use a control plane's snapshot, because it might have the same fault. */
  readonly replayOnly?: boolean;
  /** Whether the snapshot's position is wrong, so that it does not say what this gateway has served. */
  readonly isPositionWrong?: boolean;
}

export interface SupervisorOptions {
  readonly name: string;
  readonly logUrl: string;
  readonly log: ControlLog;
  readonly snapshot: Snapshot;
  readonly controlPlanes: readonly string[];
  readonly gatewayToken?: string | undefined;
  /** Trusted signers, one of which must have signed the log's first record. If undefined, any log is accepted. */
  readonly trusted?: TrustedSigners | undefined;
  /** Publishes a report whenever the position or the fault changes. */
  readonly publisher: Pick<StatusPublisher, 'isAcknowledged' | 'publish'>;
  readonly metrics: Pick<FoldMetrics, 'folded' | 'quarantined'>;
  readonly logger: Logger;
  readonly intervals?: Partial<SnapshotIntervals> | undefined;
}

/** Number of failed attempts after which pauses grow no longer if the log is unreachable (at 4 to 8 s for a rebuild). */
const awayAttemptsMax = 1;

export class SnapshotSupervisor {
  readonly lookup: Lookup = liveLookup(() => this.#active.lookup);
  readonly #options: SupervisorOptions;
  readonly #intervals: SnapshotIntervals;
  readonly #closing = new AbortController();
  #log: ControlLog;
  #active: ActiveSnapshot;
  #state: SupervisorState = 'live';
  /** Details of the present fault, or undefined if there is none. */
  #fault: SnapshotFault | undefined;
  #recovering: Promise<void> | undefined;

  constructor(options: SupervisorOptions) {
    this.#options = options;
    this.#intervals = { ...snapshotIntervals, ...options.intervals };
    this.#log = options.log;
    this.#active = this.#activate(options.snapshot);
  }

  get log(): ControlLog {
    return this.#log;
  }
  get snapshot(): Snapshot {
    return this.#active.snapshot;
  }
  get replicator(): Replicator {
    return this.#active.replicator;
  }
  get fault(): SnapshotFault | undefined {
    return this.#fault;
  }

  /** Starts the background check of the rows. Must be called after the fold has caught up with the log. */
  startVerification(): void {
    this.#active.startVerification();
  }

  async close(): Promise<void> {
    this.#move('close');
    this.#closing.abort();
    await this.#recovering;
    await this.#active.stop();
    this.#active.close();
    await this.#log.close();
  }

  /** Moves to another state. Returns false if the event is ignored in the present state. */
  #move(event: SupervisorEvent): boolean {
    const next = transition(this.#state, event);
    if (next === null) return false;
    this.#state = next;
    if (next === 'live') this.#fault = undefined;
    return true;
  }

  /** Whether the log's end may prove freshness. With several brokers it may not, because a former leader may report it. */
  readonly #mayProve = (): boolean =>
    this.#log.isReplicated !== true || this.#options.publisher.isAcknowledged;

  #activate(snapshot: Snapshot, freshness?: Replicator['freshness']): ActiveSnapshot {
    const { name, trusted, publisher, logger, metrics } = this.#options;
    const { proveMs: probeIntervalMs, verifyPauseMs } = this.#intervals;
    const options = {
      ...{ name, probeIntervalMs, verifyPauseMs },
      mayProve: this.#mayProve,
      trusted,
      onCommits: (commits: readonly Commit[], seconds: number, isBatchFolded: boolean) => {
        metrics.folded(commits, seconds, this.replicator.freshness.proven);
        const { divergedAt } = snapshot;
        if (divergedAt !== null)
          this.#onFault('damaged', `its digest differs from the checkpoint at ${divergedAt}`, {
            replayOnly: true,
          });
        // Do not publish within a burst of commits, because a report costs more than one step of the fold.
        if (isBatchFolded) publisher.publish();
      },
      onFault: (error: Error) => this.#onError(error),
      onReachabilityChange: (reachable: boolean, error?: Error) =>
        logger.warn({ reachable, reason: error?.message }, 'reachability of the control log'),
      onDamage: (reason: string) => this.#onFault('damaged', reason),
    };
    return new ActiveSnapshot(snapshot, this.#log, options, freshness);
  }

  #onError(error: Error): void {
    this.#onFault(toFaultEvent(error), error.message, { isPositionWrong: error instanceof WrongPosition });
  }

  #onFault(
    event: FaultEvent,
    reason: string,
    details: Pick<SnapshotFault, 'replayOnly' | 'isPositionWrong'> = {},
  ): void {
    if (!this.#move(event)) return;
    const fault = { state: faultState(event), reason, ...details };
    this.#fault = fault;
    if (event === 'damaged') this.#options.metrics.quarantined();
    this.#options.logger.error(fault, sentences[fault.state]);
    this.#options.publisher.publish();
    if (this.#recovering === undefined && recoveryOf[this.#state] !== 'none')
      this.#recovering = this.#recover();
  }

  /** Tries to recover until no fault is left. Only one call runs at a time, and it also handles faults that come later. */
  async #recover(): Promise<void> {
    const { logger, publisher } = this.#options;
    let isLogAway = false;
    for (let attempt = 0; recoveryOf[this.#state] !== 'none'; attempt++) {
      // While the log is unreachable, do not let pauses grow: attempts are cheap, and recovery must be quick when it returns.
      if (isLogAway) attempt = Math.min(attempt, awayAttemptsMax);
      await sleep(this.#pauseMs(attempt), this.#closing.signal);
      const state = this.#state;
      if (this.#closing.signal.aborted) return;
      try {
        await this.#attemptRecovery();
        isLogAway = false;
      } catch (error) {
        isLogAway = isAway(error);
        this.#onRecoveryFailed(state, error instanceof Error ? error : new Error(String(error)));
        continue;
      }
      // Check the state again, because the fold may already have met the next fault.
      if (this.#state !== 'live') continue;
      logger.warn({ from: state, position: this.snapshot.seq }, 'the snapshot has recovered');
      publisher.publish();
    }
    // Reset this in the same turn as the last check of the state, so that a later fault starts the loop again.
    this.#recovering = undefined;
  }

  #onRecoveryFailed(state: SupervisorState, error: Error): void {
    const { logger, publisher } = this.#options;
    logger.warn({ state, reason: error.message }, 'recovery failed; retrying');
    if (this.#state !== 'refusing-log' || error instanceof LogUnavailable) return;
    if (error instanceof WrongPosition) {
      this.#onError(error);
      return;
    }
    // Replace the reason, because the log that was found explains the fault better than the original reason.
    this.#fault = { state: this.#state, reason: error.message };
    publisher.publish();
  }

  /** Pause in ms before an attempt. It is random, so that gateways do not all try at once. */
  #pauseMs(attempt: number): number {
    const { rebuildPauseMs, rebuildPauseMsMax, retryPauseMs, retryPauseMsMax } = this.#intervals;
    const isRebuild = recoveryOf[this.#state] === 'rebuild';
    const longestMs = Math.min(
      (isRebuild ? rebuildPauseMs : retryPauseMs) * 2 ** Math.min(attempt, 10),
      isRebuild ? rebuildPauseMsMax : retryPauseMsMax,
    );
    return longestMs * (1 + Math.random());
  }

  async #attemptRecovery(): Promise<void> {
    const { controlPlanes } = this.#options;
    const recovery = recoveryOf[this.#state];
    if (recovery === 'rebuild') await this.#rebuild(this.#fault?.replayOnly ? [] : controlPlanes);
    else if (recovery === 'reopen-log') await this.#reopenLog();
    else if (recovery === 'resume') await this.#resume();
  }

  /** Moves to `live` before it continues the fold, because the fold may find the next fault. */
  async #resume(): Promise<void> {
    if (!this.#move('resumed')) throw new Error(`the snapshot is ${this.#state} by now`);
    await this.#active.resume(this.#log);
  }

  /** Opens the log again. A new connection is needed, because the existing one may never reach the right log. */
  async #reopenLog(): Promise<void> {
    const { logUrl, trusted } = this.#options;
    const before = this.#log;
    const log = await openLog(logUrl, { topic: 'headgate.control' }, { mustExist: true });
    try {
      const genesis = await readGenesis(log);
      if (genesis) trusted?.checkBeginning([genesis.record]);
      await checkIdentity(log, this.snapshot);
    } catch (error) {
      await log.close();
      throw error;
    }
    this.#log = log;
    try {
      // Fails if the snapshot has been found damaged in the meantime. The next attempt then rebuilds it.
      await this.#resume();
    } finally {
      await before.close();
    }
  }

  async #rebuild(controlPlanes: readonly string[]): Promise<void> {
    const { gatewayToken: token, trusted, logger } = this.#options;
    const { path, log: logId, seq } = this.snapshot;
    const servedSeq = this.#fault?.isPositionWrong ? 0 : seq;
    const spreadMs = this.#intervals.downloadSpreadMs;
    const source = { log: this.#log, logId, servedSeq, controlPlanes, token, spreadMs };
    const rebuilt = await rebuildBeside({ ...source, path, trusted, mayProve: this.#mayProve, logger });
    await this.#active.stop();
    // Stay in one turn of the event loop from here on, so that no request finds the old snapshot closed.
    const builtFor = rebuilt.snapshot.log ?? undefined;
    rebuilt.snapshot.close();
    this.#active.close();
    this.#move('rebuilt');
    this.#active = this.#activate(swapSnapshot(path, builtFor), rebuilt.freshness);
    this.#active.startVerification();
  }
}

const sentences: Readonly<Record<FaultState, LogText<'error'>>> = {
  quarantined: 'this snapshot is quarantined: no key is accepted until it has been rebuilt',
  'refusing-log': 'this log is refused; the last good state stays in use: see docs/recover.md',
  unwritable: 'the snapshot cannot be written; its state stays in use',
  halted: 'the fold has halted: this build is too old for the log',
};

/** Whether the log cannot be reached. A missing file counts as unreachable, because the file may be moved back. */
function isAway(error: unknown): boolean {
  return [LogUnavailable, LogReplaced, LogTruncated].some((kind) => error instanceof kind);
}

function toFaultEvent(error: Error): FaultEvent {
  if (error instanceof LogReplaced || error instanceof LogTruncated) return 'log-refused';
  if (error instanceof FoldHalted) return 'fold-halted';
  return error instanceof DatabaseUnwritable || error instanceof DatabaseBusy ? 'write-failed' : 'damaged';
}
