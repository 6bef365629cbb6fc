/**
 * Maintains `history.db`, which contains every version of every row with the positions at which it was valid, so that past
 * states can be read without folding the log again. It runs on its own thread with its own reader of the log, so it
 * never delays the control plane. The file must never be the only copy of anything.
 */
import type { LogText } from '../../schemas/records/log-events.ts';
import { type ControlLog, LogReplaced } from '../../shared/log/core/control-log.ts';
import { sleep } from '../../shared/runtime/retry.ts';
import { inSlices } from '../../shared/runtime/slices.ts';
import { mapSqliteError } from '../../shared/runtime/sqlite.ts';
import { readLogId, WrongPosition } from '../../shared/snapshot/log-identity.ts';
import { Replicator } from '../../shared/snapshot/replicator.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { CommandError } from '../core/command-error.ts';
import { HistorySpoiled, historyBytes, openHistory, removeHistory } from './history-file.ts';
import { type HistoryQueries, HistoryReader } from './queries.ts';
import { trimHistory } from './trim.ts';

export interface HistorySettings {
  readonly path: string;
  /** Size of `history.db` in bytes at which its oldest part is removed. */
  readonly bytesMax?: number | undefined;
  openLog(): Promise<ControlLog>;
  /** Writes a warning to this process's own log output. */
  note(message: LogText<'warn'>, because: string): void;
}

/** Interface to the history, for its own thread and for other threads. */
export interface HistoryAccess {
  /** Answers a query once the history has reached the position in its first argument. Rejects as soon as `client` aborts. */
  ask<Name extends keyof HistoryQueries>(
    name: Name,
    args: Parameters<HistoryQueries[Name]>,
    client: AbortSignal,
  ): Promise<ReturnType<HistoryQueries[Name]>>;
  stop(): Promise<void>;
}

const bytesMaxDefault = 8 * 1024 ** 3;
const waitMs = 10_000;
const reopenMs = 1000;
const trimEveryMs = 1000;
/** Pause after each step of background work, as a multiple of the step's duration. */
const pauseFactor = 4;

interface OpenHistory {
  readonly snapshot: Snapshot;
  readonly replicator: Replicator;
  readonly reader: HistoryReader;
  /** Stops folding the file after an error. */
  fail(error: Error): void;
}

export class History implements HistoryAccess {
  readonly #settings: HistorySettings;
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;
  #opened: OpenHistory | undefined;

  constructor(settings: HistorySettings) {
    this.#settings = settings;
    this.#running = this.#run();
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async ask<Name extends keyof HistoryQueries>(
    name: Name,
    args: Parameters<HistoryQueries[Name]>,
    client: AbortSignal,
  ): Promise<ReturnType<HistoryQueries[Name]>> {
    const { reader, fail } = await this.#ready(Number(args[0]), client);
    try {
      type Answer = ReturnType<HistoryQueries[Name]>;
      const query = reader[name] as (...args: readonly unknown[]) => Answer | Generator<void, Answer>;
      const found = query.apply(reader, args);
      return isStepped(found) ? await inSlices(found) : found;
    } catch (error) {
      const known = mapSqliteError(error, this.#settings.path);
      if (!isSpoiled(known)) throw known;
      fail(known);
      throw busy('the history is damaged and is being rebuilt from the log');
    }
  }

  /** Resolves once the history has reached the position. Rejects with a `Busy` error, or if `client` aborts. */
  async #ready(seq: number, client: AbortSignal): Promise<OpenHistory> {
    const until = performance.now() + waitMs;
    while (this.#opened === undefined && performance.now() < until && !this.#stop.signal.aborted) {
      client.throwIfAborted();
      await sleep(20, this.#stop.signal);
    }
    const opened = this.#opened;
    if (opened === undefined) throw busy('the history is being opened');
    const reached = await opened.replicator
      .reached(seq, Math.max(0, until - performance.now()), client)
      .catch(() => false);
    client.throwIfAborted();
    if (!reached) throw busy(`the history is being built: it has ${opened.snapshot.seq} of ${seq} commits`);
    return opened;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      try {
        await this.#follow();
      } catch (error) {
        if (signal.aborted) return;
        this.#settings.note('the history had stopped, and is opened again', String((error as Error).message));
      }
      await sleep(reopenMs, signal);
    }
  }

  /** Opens the file and follows the log until folding stops. Removes the file if it is spoiled. */
  async #follow(): Promise<void> {
    const { path, openLog, note } = this.#settings;
    const log = await openLog();
    let snapshot: Snapshot | undefined;
    try {
      const opened = openHistory(path, await readLogId(log));
      snapshot = opened.snapshot;
      if (opened.rebuiltBecause !== undefined)
        note('history.db is being rebuilt from the log', opened.rebuiltBecause);
      await this.#fold(log, snapshot);
    } catch (error) {
      const known = mapSqliteError(error, path);
      if (!isSpoiled(known)) throw known;
      note('history.db is being rebuilt from the log', known.message);
      snapshot?.db.close();
      removeHistory(path);
    } finally {
      snapshot?.close();
      await log.close();
    }
  }

  async #fold(log: ControlLog, snapshot: Snapshot): Promise<void> {
    const isNew = snapshot.seq === 0;
    const ended = new AbortController();
    let fail: (error: Error) => void = () => undefined;
    const failed = new Promise<void>((resolve, reject) => {
      fail = reject;
      this.#stop.signal.addEventListener('abort', () => resolve(), { once: true });
    });
    const replicator = new Replicator({
      snapshot,
      log,
      onFault: fail,
      onCommits: () => {
        if (snapshot.divergedAt === null) return;
        // This build alone has folded a new file, so a checkpoint that contradicts it comes from another build and is
        // ignored.
        if (isNew) snapshot.overrideCheckpoint();
        else fail(new HistorySpoiled(`it differs from the checkpoint at ${snapshot.divergedAt}`));
      },
    });
    const reader = new HistoryReader(snapshot, () => this.#facts(snapshot));
    replicator.start();
    this.#opened = { snapshot, replicator, reader, fail };
    this.#trim(snapshot, ended.signal).catch(fail);
    try {
      await failed;
    } catch (error) {
      if (error instanceof LogReplaced) await this.#untilLogOpens();
      throw error;
    } finally {
      this.#opened = undefined;
      ended.abort();
      await replicator.stop();
    }
  }

  /** Waits until the log can be opened again. Meanwhile, past states can still be read. */
  async #untilLogOpens(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      const log = await this.#settings.openLog().catch(() => undefined);
      if (log !== undefined) return await log.close();
      await sleep(reopenMs, signal);
    }
  }

  async #trim({ db }: Snapshot, signal: AbortSignal): Promise<void> {
    const { bytesMax = bytesMaxDefault } = this.#settings;
    while (!signal.aborted) {
      await inSteps(trimHistory(db, bytesMax), signal);
      await sleep(trimEveryMs, signal);
    }
  }

  #facts(snapshot: Snapshot) {
    return { position: snapshot.seq, bytes: historyBytes(this.#settings.path) };
  }
}

/** Runs background work in steps. Pauses after each step, so that queries and folding can run. */
async function inSteps(steps: Generator<void>, signal: AbortSignal): Promise<void> {
  for (let beganMs = performance.now(); !signal.aborted; beganMs = performance.now()) {
    if (steps.next().done) return;
    await sleep(pauseFactor * (performance.now() - beganMs), signal);
  }
}

function isStepped<Answer>(found: Answer | Generator<void, Answer>): found is Generator<void, Answer> {
  return typeof found === 'object' && found !== null && Symbol.iterator in found && 'next' in found;
}

function isSpoiled(error: unknown): error is Error {
  if (!(error instanceof Error)) return false;
  return (
    error instanceof HistorySpoiled || error instanceof WrongPosition || error.name === 'DatabaseCorrupt'
  );
}

function busy(message: string): CommandError {
  return new CommandError('Busy', message, { next: 'try again in a few seconds' });
}
