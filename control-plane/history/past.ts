/** Past states, for reads of the admin API. Their rows are read on the thread of the history. Callers take turns. */
import { momentForms, type NamedMoment, parseMoment } from '../../schemas/admin/moments.ts';
import { wallClockMs } from '../../shared/runtime/clock.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import type { TableName } from '../../shared/snapshot/tables.ts';
import { CommandError } from '../core/command-error.ts';
import { CallerQueue } from '../state/caller-queue.ts';
import type { HistoryAccess } from './history.ts';
import type { HistoryQueries } from './queries.ts';

/** What is known of a state without its rows. */
export interface StateFacts {
  readonly seq: number;
  readonly log: string | null;
  readonly head: { readonly signers: readonly string[] };
}

/** A moment of the past: a position, and the clock by which keys expire there. */
export interface PastMoment {
  readonly seq: number;
  readonly nowMs: number;
}

/** In whose turn the past is read, and whether anybody waits for it. */
export interface PastReader {
  readonly caller: string;
  readonly client: AbortSignal;
}

export interface PastOptions {
  readonly present: Snapshot;
  readonly history: HistoryAccess;
}

/** Where no request is behind it. */
const alwaysThere = (): PastReader => ({ caller: 'operator', client: new AbortController().signal });

/** Throws InvalidCommand. */
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

  /** What `--at` names. Throws InvalidCommand, NotFound for a moment before the log or after its end, Busy. */
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

  /** The time of a moment, which may be before the log. Throws InvalidCommand, NotFound, Busy. */
  async timeOf(text: string, reader = alwaysThere()): Promise<number> {
    const parsed = namedMoment(text);
    if ('timeMs' in parsed) return parsed.timeMs;
    return (await this.moment(text, reader)).nowMs;
  }

  /** The state after commit `seq`. Throws NotFound, Busy. */
  async at(seq: number, reader = alwaysThere()): Promise<StateFacts> {
    if (seq === this.#present.seq) return this.#present;
    if (seq < 1 || seq > this.#present.seq)
      throw new CommandError('NotFound', `there is no position ${seq}; the log is at ${this.#present.seq}`);
    const { signers } = await this.ask('past', [seq], reader);
    return { seq, log: this.#present.log, head: { signers } };
  }

  /** Of each table after commit `seq`. Throws NotFound, Busy. */
  async digestsAt(seq: number, reader?: PastReader): Promise<Readonly<Record<TableName, string>>> {
    return seq === this.#present.seq ? this.#present.digests() : this.ask('digests', [seq], reader);
  }

  /** A question to the history, once it is the reader's turn. Rejects with the reason of the client's signal, which ends the wait. */
  ask<Name extends keyof HistoryQueries>(
    name: Name,
    args: Parameters<HistoryQueries[Name]>,
    reader = alwaysThere(),
  ): Promise<ReturnType<HistoryQueries[Name]>> {
    const { caller, client } = reader;
    return this.#queue.run(caller, client, () => this.#history.ask(name, args, client));
  }
}
