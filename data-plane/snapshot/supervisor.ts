/**
 * Keeps a gateway's snapshot at the head of its log and mends what can be mended while it serves:
 *  - a snapshot that differs from its digest or from a checkpoint is quarantined (no key is accepted from it) and rebuilt;
 *  - a log that was replaced, cut off or is another one is refused: nothing is folded from it, the last good state stays and
 *    ages, and the log is looked at again until it is back, or until one stands there that was begun to take its place;
 *  - a file that cannot be written is tried again; the state stays and ages;
 *  - an event that this build must not pass over halts the fold until the next build; the state stays and ages.
 * What ages is answered from as the stale policy says; only quarantine forbids it altogether.
 */

import type { Commit } from '../../schemas/commit.ts';
import { controlTopic } from '../../schemas/commit.ts';
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
import { checkIdentity, readGenesis, succeeds } from '../../shared/snapshot/log-identity.ts';
import type { Lookup } from '../../shared/snapshot/lookup.ts';
import { FoldHalted, type Replicator } from '../../shared/snapshot/replicator.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { Generation } from './active-snapshot.ts';
import { liveLookup } from './live-lookup.ts';
import { rebuildBeside, swapIn } from './rebuild.ts';

export interface Trouble {
  readonly kind: 'quarantined' | 'refused' | 'unwritable' | 'halted';
  readonly reason: string;
  /** A snapshot that a control plane offers may be no better: the log itself decides. */
  readonly replayOnly?: boolean;
}

export interface FollowerOptions {
  readonly logUrl: string;
  readonly log: ControlLog;
  readonly snapshot: Snapshot;
  readonly controlPlanes: readonly string[];
  readonly gatewayToken?: string | undefined;
  /** One of them must have begun the log; where left out, any log will do. */
  readonly trusted?: TrustedSigners | undefined;
  readonly mayProve: () => boolean;
  readonly metrics: Pick<FoldMetrics, 'folded' | 'quarantined'>;
  /** The position moved, or the snapshot got into trouble or out of it. */
  readonly onChange: () => void;
  readonly logger: Logger;
}

/** Before a snapshot is rebuilt: a whole fleet that found the same fault must not ask and replay at once. */
const rebuildPauseMs = 2000;
const lookAgainMs = 1000;
const pauseMsMax = 30_000;
/** A log that comes back is to be found within seconds. */
const lookAgainMsMax = 5000;

export class Follower {
  /** Answers from whichever snapshot is in use. */
  readonly lookup: Lookup = liveLookup(() => this.#generation.lookup);
  readonly #options: FollowerOptions;
  readonly #closing = new AbortController();
  #log: ControlLog;
  #generation: Generation;
  #trouble: Trouble | undefined;
  #mending: Promise<void> | undefined;

  constructor(options: FollowerOptions) {
    this.#options = options;
    this.#log = options.log;
    this.#generation = this.#generationOf(options.snapshot);
  }

  get log(): ControlLog {
    return this.#log;
  }
  get snapshot(): Snapshot {
    return this.#generation.snapshot;
  }
  get replicator(): Replicator {
    return this.#generation.replicator;
  }
  get trouble(): Trouble | undefined {
    return this.#trouble;
  }

  get #isLive(): boolean {
    return this.#generation?.replicator.freshness.proven ?? false;
  }

  /** Begins to watch the rows; to be called once the fold has caught up. */
  watch(): void {
    this.#generation.watch();
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#mending;
    await this.#generation.stop();
    this.#generation.close();
    await this.#log.close();
  }

  #generationOf(snapshot: Snapshot, freshness?: Replicator['freshness']): Generation {
    const { mayProve, trusted, onChange, logger, metrics } = this.#options;
    const hooks = {
      ...{ mayProve, trusted },
      onMoved: (commits: readonly Commit[], seconds: number) => {
        // The first slices come while the generation is made, when there is nothing live to tell of.
        metrics.folded(commits, seconds, this.#isLive);
        const { divergedAt } = snapshot;
        const reason = `its digest differs from the checkpoint at ${divergedAt}`;
        if (divergedAt !== null) this.#found({ kind: 'quarantined', reason, replayOnly: true });
        onChange();
      },
      onFault: (error: Error) => this.#found(troubleOf(error)),
      onReach: (reachable: boolean, error?: Error) =>
        logger.warn({ reachable, reason: error?.message }, 'control log'),
      onDamage: (reason: string) => this.#found({ kind: 'quarantined', reason }),
    };
    return new Generation(snapshot, this.#log, hooks, freshness);
  }

  #found(trouble: Trouble): void {
    if (this.#closing.signal.aborted || this.#trouble?.kind === 'quarantined') return;
    this.#trouble = trouble;
    if (trouble.kind === 'quarantined') this.#options.metrics.quarantined();
    this.#options.logger.error(trouble, sentences[trouble.kind]);
    this.#options.onChange();
    this.#mending ??= this.#mend().finally(() => {
      this.#mending = undefined;
    });
  }

  async #mend(): Promise<void> {
    const { logger, onChange } = this.#options;
    for (let attempt = 0; ; attempt++) {
      const trouble = this.#trouble;
      if (!trouble || trouble.kind === 'halted') return;
      await sleep(pauseBefore(trouble, attempt), this.#closing.signal);
      if (this.#closing.signal.aborted) return;
      try {
        await this.#mendOnce(this.#trouble ?? trouble);
      } catch (error) {
        this.#notMended(trouble, error instanceof Error ? error : new Error(String(error)));
        continue;
      }
      logger.warn({ trouble: trouble.kind, position: this.snapshot.seq }, 'mended');
      onChange();
    }
  }

  /** What stands in the log's place now says more than that it is no longer ours. */
  #notMended({ kind }: Trouble, error: Error): void {
    const { logger, onChange } = this.#options;
    logger.warn({ trouble: kind, reason: error.message }, 'not mended yet');
    if (this.#trouble?.kind !== 'refused' || error instanceof LogUnavailable) return;
    this.#trouble = { kind: 'refused', reason: error.message };
    onChange();
  }

  async #mendOnce({ kind, replayOnly = false }: Trouble): Promise<void> {
    const { controlPlanes } = this.#options;
    if (kind === 'quarantined') await this.#rebuild(this.#log, replayOnly ? [] : controlPlanes);
    else if (kind === 'refused') await this.#lookAgain();
    else await this.#resume(this.#log);
  }

  /** The trouble ends before the fold begins again, which may find the next one. */
  async #resume(log: ControlLog): Promise<void> {
    this.#trouble = undefined;
    await this.#generation.resume(log);
  }

  /** Opens the log anew, for the one that is open may never be the right one again. */
  async #lookAgain(): Promise<void> {
    const { logUrl, controlPlanes, trusted } = this.#options;
    const before = this.#log;
    const log = await openLog(logUrl, { topic: controlTopic }, { mustExist: true });
    try {
      const genesis = await readGenesis(log);
      if (genesis) trusted?.checkBeginning([genesis.record]);
      if (genesis && succeeds(genesis, this.snapshot)) await this.#rebuild(log, controlPlanes);
      else {
        await checkIdentity(log, this.snapshot);
        await this.#resume(log);
      }
    } catch (error) {
      await log.close();
      throw error;
    }
    this.#log = log;
    await before.close();
  }

  async #rebuild(log: ControlLog, controlPlanes: readonly string[]): Promise<void> {
    const { gatewayToken: token, trusted, mayProve, logger } = this.#options;
    const { path, log: logId, seq: servedSeq } = this.snapshot;
    const offered = { controlPlanes, token, trusted };
    const rebuilt = await rebuildBeside({ path, log, logId, servedSeq, ...offered, mayProve, logger });
    await this.#generation.stop();
    // From here to the new generation in one turn: no request may find the old one closed.
    const builtFor = rebuilt.snapshot.log ?? undefined;
    rebuilt.snapshot.close();
    this.#generation.close();
    this.#log = log;
    this.#trouble = undefined;
    this.#generation = this.#generationOf(swapIn(path, builtFor), rebuilt.freshness);
    this.#generation.watch();
  }
}

const sentences: Readonly<Record<Trouble['kind'], string>> = {
  quarantined: 'this snapshot is quarantined; no key is accepted from it, and it is rebuilt',
  refused: 'this log is refused; the last good state stays, see docs/operate.md',
  unwritable: 'the snapshot cannot be written; its state stays',
  halted: 'the fold stands still; this build is too old for the log',
};

function troubleOf(error: Error): Trouble {
  const reason = error.message;
  if (error instanceof LogReplaced || error instanceof LogTruncated) return { kind: 'refused', reason };
  if (error instanceof FoldHalted) return { kind: 'halted', reason };
  if (error instanceof DatabaseUnwritable || error instanceof DatabaseBusy)
    return { kind: 'unwritable', reason };
  return { kind: 'quarantined', reason };
}

/** Random, so that a fleet spreads out. */
function pauseBefore({ kind }: Trouble, attempt: number): number {
  const isRebuild = kind === 'quarantined';
  const longest = Math.min(
    (isRebuild ? rebuildPauseMs : lookAgainMs) * 2 ** Math.min(attempt, 10),
    isRebuild ? pauseMsMax : lookAgainMsMax,
  );
  return longest * (1 + Math.random());
}
