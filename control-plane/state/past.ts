/** State at a past position: the log folded again up to it, in memory, by the same fold. The last ones are cached. */
import type { ControlLog } from '../../shared/log/core/control-log.ts';
import { memorySnapshot } from '../../shared/snapshot/open-snapshot.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { CommandError } from '../core/command-error.ts';
import { CommitReader } from './commits.ts';

const statesKept = 4;
const sliceMs = 6;

export class PastStates {
  readonly #log: ControlLog;
  readonly #present: Snapshot;
  readonly #kept = new Map<number, Promise<Snapshot>>();

  constructor(log: ControlLog, present: Snapshot) {
    this.#log = log;
    this.#present = present;
  }

  /** The state after commit `seq`. Throws NotFound for a position that does not exist yet. */
  async at(seq: number): Promise<Snapshot> {
    if (seq === this.#present.seq) return this.#present;
    if (seq < 1 || seq > this.#present.seq)
      throw new CommandError('NotFound', `there is no position ${seq}; the log is at ${this.#present.seq}`);
    const kept = this.#kept.get(seq) ?? this.#build(seq);
    this.#kept.delete(seq);
    this.#kept.set(seq, kept);
    kept.catch(() => this.#kept.delete(seq));
    if (this.#kept.size > statesKept) this.#forgetOldest();
    return kept;
  }

  async #build(seq: number): Promise<Snapshot> {
    const snapshot = memorySnapshot();
    for await (const batch of new CommitReader(this.#log, this.#present.log).upTo(seq)) {
      let rest = batch.map(({ record }) => record);
      while (rest.length > 0) {
        rest = rest.slice(snapshot.apply(rest, sliceMs).consumed);
        await new Promise((resolve) => setImmediate(resolve));
      }
    }
    return snapshot;
  }

  #forgetOldest(): void {
    const [oldest] = this.#kept;
    if (oldest === undefined) return;
    const [seq, kept] = oldest;
    this.#kept.delete(seq);
    // Its waiters read it in the turn in which it is built, so it is unused one turn later.
    kept.then(
      (snapshot) => setImmediate(() => snapshot.close()),
      () => undefined,
    );
  }
}
