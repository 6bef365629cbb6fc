/** Reads accepted commits from the log. Lists of events and past states use it. */
import type { Commit } from '../../schemas/events/commit.ts';
import { batchesToEnd } from '../../shared/log/core/batches-to-end.ts';
import { emptyHead, type Head, judge } from '../../shared/log/core/chain.ts';
import { type ControlLog, type LogRecord, LogTruncated } from '../../shared/log/core/control-log.ts';
import { BoundedMap } from '../../shared/runtime/bounded-map.ts';

export interface AcceptedRecord {
  readonly commit: Commit;
  readonly record: LogRecord;
}

/** Point in the log at which reading can begin, because the chain up to it is known. */
interface CommitMark {
  readonly head: Head;
  readonly offset: number;
}

const marksMax = 4000;

/** Points that earlier readers of a log have passed, so that later pages need not read from the beginning. */
export class ReadMarks {
  readonly #marks = new BoundedMap<number, CommitMark>(marksMax, 'oldest');

  add(mark: CommitMark): void {
    this.#marks.set(mark.head.seq, mark);
  }

  before(seq: number): CommitMark | undefined {
    let best: CommitMark | undefined;
    for (const mark of this.#marks.values())
      if (mark.head.seq < seq && mark.head.seq > (best?.head.seq ?? 0)) best = mark;
    return best;
  }
}

export interface ReaderOptions {
  readonly marks: ReadMarks;
  /** Position of the first wanted commit. Earlier commits may be returned too. */
  readonly from: number;
}

/** Reads commits in order. The next read continues where the last one ended. */
export class CommitReader {
  readonly #log: ControlLog;
  readonly #marks: ReadMarks | undefined;
  #head: Head;
  #offset: number;

  constructor(log: ControlLog, logId: string | null, options?: ReaderOptions) {
    const mark = options?.marks.before(options.from);
    this.#log = log;
    this.#marks = options?.marks;
    this.#head = mark?.head ?? emptyHead(logId);
    this.#offset = mark?.offset ?? 0;
  }

  /** Position of the commit that was read last. */
  get seq(): number {
    return this.#head.seq;
  }

  /** Yields unread commits up to `toSeq`, which must have been folded. Throws `LogTruncated` if the log ends before that. */
  async *upTo(toSeq: number): AsyncIterable<AcceptedRecord[]> {
    if (this.#head.seq >= toSeq) return;
    for await (const records of batchesToEnd(this.#log, { from: this.#offset, recordsMax: 500 })) {
      const accepted = this.#accept(records, toSeq);
      if (accepted.length > 0) yield accepted;
      if (this.#head.seq >= toSeq) return;
    }
    throw new LogTruncated(`the log ends before commit ${toSeq}, which was folded from it`);
  }

  #accept(records: readonly LogRecord[], toSeq: number): AcceptedRecord[] {
    const accepted: AcceptedRecord[] = [];
    for (const record of records) {
      if (this.#head.seq >= toSeq) break;
      const judgement = judge(this.#head, record);
      this.#offset = record.offset + 1;
      if (!('accepted' in judgement)) continue;
      this.#head = judgement.head;
      accepted.push({ commit: judgement.accepted, record });
    }
    if (accepted.length > 0) this.#marks?.add({ head: this.#head, offset: this.#offset });
    return accepted;
  }
}
