/** Past states for the admin API, read on the history thread. Callers take turns, so that none delays the others. */
import { momentForms, type NamedMoment, parseMoment } from '../../schemas/admin/moments.ts';
import { wallClockMs } from '../../shared/runtime/clock.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import type { TableName } from '../../shared/snapshot/tables.ts';
import { CommandError } from '../core/command-error.ts';
import { CallerQueue } from '../state/caller-queue.ts';
import type { HistoryAccess } from './history.ts';
import type { HistoryQueries } from './queries.ts';

/** Facts about a state that can be known without reading its rows. */
export interface StateFacts {
  readonly seq: number;
  readonly log: string | null;
  readonly head: { readonly signers: readonly string[] };
}

/** A moment in the past: a position of the log, and the time that decides which keys count as expired. */
export interface PastMoment {
  readonly seq: number;
  readonly nowMs: number;
}

/** Caller whose turn a question waits for, and a signal that aborts when the caller's client disconnects. */
export interface PastReader {
  readonly caller: string;
  readonly client: AbortSignal;
}

export interface PastOptions {
  readonly present: Snapshot;
  readonly history: HistoryAccess;
}

/** Returns the reader of past states for questions that do not come from a request. */
const alwaysThere = (): PastReader => ({ caller: 'operator', client: new AbortController().signal });

/** Parses a moment. Throws an `InvalidCommand` error if the text is not a valid moment. */
function namedMoment(text: string): NamedMoment {
  const parsed = parseMoment(text, wallClockMs());
  if (parsed) return parsed;
  throw new CommandError('InvalidCommand', `at takes ${momentForms}`);
}

export class PastStates {
  readonly #present: Snapshot;
  readonly #history: HistoryAccess;
  readonly #queue = new CallerQueue({
    concurrencyMax: 2,
    waitersPerCallerMax: 64,
    what: 'reads of the past',
  });

  constructor({ present, history }: PastOptions) {
    this.#present = present;
    this.#history = history;
  }

  /** Resolves a moment given as `--at`. Throws `InvalidCommand`, `Busy`, or `NotFound` if there is no such moment. */
  async moment(text: string, reader = alwaysThere()): Promise<PastMoment> {
    const parsed = namedMoment(text);
    const head = this.#present.seq;
    if ('timeMs' in parsed) {
      const { timeMs } = parsed;
      if (timeMs > wallClockMs()) throw new CommandError('NotFound', 'this time is not in the past');
      const seq = await this.ask('positionAt', [head, timeMs], reader);
      if (seq === 0) throw new CommandError('NotFound', 'the log begins after this time');
      return { seq, nowMs: timeMs };
    }
    const { position } = parsed;
    if (position > head)
      throw new CommandError('NotFound', `there is no position ${position}; the log is at ${head}`);
    const { atMs } = await this.ask('past', [position], reader);
    return { seq: position, nowMs: atMs };
  }

  /** Returns a moment's time in ms since 1970, possibly before the log. Throws `InvalidCommand`, `NotFound` or `Busy`. */
  async timeOf(text: string, reader = alwaysThere()): Promise<number> {
    const parsed = namedMoment(text);
    if ('timeMs' in parsed) return parsed.timeMs;
    return (await this.moment(text, reader)).nowMs;
  }

  /** Returns the state after commit `seq`. Throws a `NotFound` or `Busy` error. */
  async at(seq: number, reader = alwaysThere()): Promise<StateFacts> {
    if (seq === this.#present.seq) return this.#present;
    if (seq < 1 || seq > this.#present.seq)
      throw new CommandError('NotFound', `there is no position ${seq}; the log is at ${this.#present.seq}`);
    const { signers } = await this.ask('past', [seq], reader);
    return { seq, log: this.#present.log, head: { signers } };
  }

  /** Returns the digest of each table after commit `seq`. Throws a `NotFound` or `Busy` error. */
  async digestsAt(seq: number, reader?: PastReader): Promise<Readonly<Record<TableName, string>>> {
    return seq === this.#present.seq ? this.#present.digests() : this.ask('digests', [seq], reader);
  }

  /** Asks the history when it is the caller's turn. Rejects with the signal's reason as soon as the client disconnects. */
  ask<Name extends keyof HistoryQueries>(
    name: Name,
    args: Parameters<HistoryQueries[Name]>,
    reader = alwaysThere(),
  ): Promise<ReturnType<HistoryQueries[Name]>> {
    const { caller, client } = reader;
    return this.#queue.run(caller, client, () => this.#history.ask(name, args, client));
  }
}
