/**
 * The beginning of a log on Kafka that was cut, in a topic next to it: partition 0 has the facts, each in one record; partition 1
 * the states, in pieces. The facts are written last, so that nobody finds half a state; only then records of the log are removed,
 * and then what is left of earlier beginnings. What is no facts is passed over, as every reader does with foreign records.
 */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { beginningTopic } from '../../../schemas/commit.ts';
import { batchesToEnd } from '../core/batches-to-end.ts';
import {
  type BeginningFacts,
  type NewBeginning,
  parseBeginning,
  renderBeginning,
  unusableBeginning,
  writeState,
} from '../core/beginning.ts';
import { type ControlLog, LogUnavailable, type LogUnreadable } from '../core/control-log.ts';
import type { Range } from './partition.ts';

/** Below the largest batch of records. */
const pieceBytes = 512 * 1024;
/** The last records that are read of the facts: earlier ones are removed with each cut. */
const factsReadMax = 1000;

/** A partition of the topic. */
interface PartitionLog extends ControlLog {
  range(): Promise<Range>;
  removeBefore(offset: number): Promise<void>;
}

/** A state in pieces, the first of them at this offset. */
type StateInPieces = Extract<BeginningFacts['state'], { readonly offset: number }>;

interface KeptBeginning {
  readonly facts: BeginningFacts;
  readonly state: StateInPieces;
  /** Of the record with the facts. */
  readonly offset: number;
}

export class BeginningTopic {
  readonly #facts: PartitionLog;
  readonly #pieces: PartitionLog;

  constructor(open: (partition: number) => PartitionLog) {
    this.#facts = open(0);
    this.#pieces = open(1);
  }

  /** The last that was written of those whose commit is at or behind the first offset that the log has. */
  async last(start: number): Promise<KeptBeginning | undefined> {
    const range = await this.#facts.range();
    if (range.end === range.start) return undefined;
    const from = Math.max(range.start, range.end - factsReadMax);
    let last: KeptBeginning | undefined;
    for await (const records of batchesToEnd(this.#facts, { from }))
      for (const { offset, value } of records) {
        const facts = parseBeginning(value.toString());
        if (facts !== undefined && facts.offset >= start && 'offset' in facts.state)
          last = { facts, state: facts.state, offset };
      }
    return last;
  }

  /** Rejects with LogUnreadable where it is not what was written. */
  async copyState(state: StateInPieces, to: string): Promise<void> {
    const { start } = await this.#pieces.range();
    const isThere = start <= state.offset;
    if (!isThere || !(await writeState(this.#piecesFrom(state.offset), to, state)))
      throw unusableTopic(`the state in it is ${isThere ? 'not what was written' : 'missing'}`);
  }

  async *#piecesFrom(from: number): AsyncGenerator<Buffer> {
    for await (const records of batchesToEnd(this.#pieces, { from }))
      for (const { value } of records) yield value;
  }

  /** Rejects with LogUnavailable where another process writes a state at the same time. */
  async add(facts: NewBeginning, statePath: string): Promise<void> {
    const hash = createHash('sha256');
    let first: number | undefined;
    let next: number | undefined;
    let bytes = 0;
    for await (const piece of createReadStream(statePath, { highWaterMark: pieceBytes })) {
      hash.update(piece);
      bytes += piece.length;
      const offset = await this.#pieces.append(piece);
      if (next !== undefined && offset !== next) throw writtenByOthers();
      first ??= offset;
      next = offset + 1;
    }
    const state = { offset: first ?? 0, bytes, sha256: hash.digest('hex') };
    await this.#facts.append(Buffer.from(renderBeginning({ v: 1, ...facts, state })));
  }

  /** Removes what was written before this one. */
  async removeBefore({ state, offset }: KeptBeginning): Promise<void> {
    await this.#facts.removeBefore(offset);
    await this.#pieces.removeBefore(state.offset);
  }

  async close(): Promise<void> {
    await Promise.all([this.#facts.close(), this.#pieces.close()]);
  }
}

export function unusableTopic(why: string): LogUnreadable {
  return unusableBeginning(`topic ${beginningTopic}`, why);
}

function writtenByOthers(): LogUnavailable {
  return new LogUnavailable(
    `another headgate log archive writes to topic ${beginningTopic}; run this again once it has ended`,
  );
}
