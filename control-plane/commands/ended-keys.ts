/**
 * Removes the rows of keys that ended long ago, so that the state grows only with keys in use. Every replica tries to do so,
 * and the log accepts only the first attempt. Ids stay in the log and in history. A request with a removed key gets the
 * refusal of a key that never existed.
 */
import { randomUUID } from 'node:crypto';
import { dayMs } from '../../schemas/durations.ts';
import type { KnownEvent } from '../../schemas/events/events.ts';
import { replicaAuthor } from '../../schemas/shapes.ts';
import { RemovalTime, wallClockMs } from '../../shared/runtime/clock.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { sleep } from '../../shared/runtime/retry.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { all } from '../../shared/runtime/statements.ts';
import type { Replicator } from '../../shared/snapshot/replicator.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { keyEndSql } from '../../shared/snapshot/tables.ts';
import type { CommandWriter } from './command-writer.ts';

const forgetAfterMsDefault = 90 * dayMs;
/** Maximum number of keys that are removed per commit. Folding them takes about 20 ms of one turn of the event loop. */
const keysPerCommit = 500;
/** Pause in ms when there is nothing to remove. */
const restMs = 60_000;
/** Pause in ms between two commits, so that other writers get their turns. */
const pauseMs = 1000;

export interface EndedKeysOptions {
  readonly name: string;
  readonly snapshot: Snapshot;
  readonly replicator: Replicator;
  readonly writer: CommandWriter;
  readonly logger: Logger;
  /** Time in ms between a key's end and its removal. */
  readonly forgetAfterMs?: number | undefined;
  /** Wall clock in ms since 1970. */
  readonly now?: () => number;
  /** Returns the milliseconds since the machine started. */
  readonly monotonicMs?: () => number;
}

interface EndedKey {
  readonly id: string;
  readonly organisation: string;
  readonly name: string;
}

/** Lists keys that ended at or before `untilMs`, starting with those that ended first. */
function endedKeys(db: Database, untilMs: number): EndedKey[] {
  // The log may contain a key's revocation before its creation. Until the creation arrives, the row must stay.
  return all<EndedKey>(
    db,
    `SELECT id, organisation, name FROM api_key WHERE ${keyEndSql} <= ? AND organisation IS NOT NULL
       ORDER BY ${keyEndSql} LIMIT ?`,
    untilMs,
    keysPerCommit,
  );
}

export class EndedKeys {
  readonly #options: EndedKeysOptions;
  readonly #stop = new AbortController();
  readonly #removal: RemovalTime;
  #running: Promise<void> | undefined;

  constructor(options: EndedKeysOptions) {
    this.#options = options;
    this.#removal = new RemovalTime(options.monotonicMs);
  }

  start(): void {
    this.#running = this.#run();
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  /** Removes the rows of ended keys, at most one commit of them, and returns their number. Rejects with `CommandError`. */
  async forget(): Promise<number> {
    const { name, snapshot, writer } = this.#options;
    const untilMs = this.#endedUntilMs();
    if (untilMs === undefined || endedKeys(snapshot.db, untilMs).length === 0) return 0;
    let forgotten = 0;
    await writer.write(`forget-keys-${randomUUID()}`, replicaAuthor(name), () => {
      const ended = endedKeys(snapshot.db, untilMs);
      forgotten = ended.length;
      return ended.map((data): KnownEvent => ({ type: 'key.forgotten', data }));
    });
    return forgotten;
  }

  /**
   * Returns the time up to which ended keys are removed. It advances no faster than real time, even if a clock jumps ahead.
   */
  #endedUntilMs(): number | undefined {
    const { replicator, forgetAfterMs = forgetAfterMsDefault, now = wallClockMs } = this.#options;
    const { logMs, reachable } = replicator;
    if (logMs === undefined || !reachable || !Number.isFinite(forgetAfterMs)) return undefined;
    return this.#removal.limit(Math.min(logMs, now())) - forgetAfterMs;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      const forgotten = await this.#tried();
      // After a start, nothing can be removed until the log has been read, so only then does 0 mean that the work is done.
      const isDone = forgotten === 0 && this.#endedUntilMs() !== undefined;
      await sleep(isDone ? restMs : pauseMs, signal);
    }
  }

  async #tried(): Promise<number> {
    const { logger } = this.#options;
    try {
      const keys = await this.forget();
      if (keys > 0) logger.info({ keys }, 'keys that ended long ago were forgotten');
      return keys;
    } catch (error) {
      logger.debug({ err: error }, 'keys that ended long ago could not be forgotten yet; retrying');
      return 0;
    }
  }
}
