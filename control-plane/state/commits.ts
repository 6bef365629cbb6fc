/** Reads the accepted commits from the log, for lists of events and for past states. */
import { type Commit, parseCommit } from '../../schemas/commit.ts';
import { batchesToEnd, recordAt } from '../../shared/log/core/batches-to-end.ts';
import { emptyHead, type Head, judge } from '../../shared/log/core/chain.ts';
import { type ControlLog, type LogRecord, LogTruncated } from '../../shared/log/core/control-log.ts';
import { BoundedMap } from '../../shared/runtime/bounded-map.ts';
import { CommandError } from '../core/command-error.ts';

/** What is asked for is no longer in the log, which begins at this position. */
export function archived(begin: number): CommandError {
  return new CommandError('NotFound', `archived: positions before ${begin} are in the archive`, {
    next: archivedNext,
  });
}

/** What helps then. */
export const archivedNext = 'headgate replay --archive FOLDER --to POSITION folds the archive of the log';

export interface AcceptedRecord {
  readonly commit: Commit;
  readonly record: LogRecord;
}

/** A position of the chain at which reading can begin. */
interface CommitMark {
  readonly head: Head;
  readonly offset: number;
}

const marksMax = 4000;

/** Positions that readers of one log have passed, so that reading page after page does not start from the beginning each time. */
export class ReadMarks {
  readonly #marks = new BoundedMap<number, CommitMark>(marksMax, 'oldest');

  add(mark: CommitMark): void {
    this.#marks.set(mark.head.seq, mark);
  }

  /** The last one before this commit. */
  before(seq: number): CommitMark | undefined {
    let best: CommitMark | undefined;
    for (const mark of this.#marks.values())
      if (mark.head.seq < seq && mark.head.seq > (best?.head.seq ?? 0)) best = mark;
    return best;
  }
}

export interface ReaderOptions {
  readonly marks: ReadMarks;
  /** The first commit wanted; earlier ones may be read, too. */
  readonly from: number;
}

/** Reads commits in order, and keeps its position. */
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

  /** `seq` of the last commit read. */
  get seq(): number {
    return this.#head.seq;
  }

  /**
   * Yields the commits not yet read up to `toSeq`, which were folded before, batch by batch. Throws what a tail throws, and
   * LogTruncated where the log ends before `toSeq`: a silent early end would look complete.
   */
  async *upTo(toSeq: number): AsyncIterable<AcceptedRecord[]> {
    await this.#passArchived();
    if (this.#head.seq >= toSeq) return;
    for await (const records of batchesToEnd(this.#log, { from: this.#offset, recordsMax: 500 })) {
      const accepted = this.#accept(records, toSeq);
      if (accepted.length > 0) yield accepted;
      if (this.#head.seq >= toSeq) return;
    }
    throw new LogTruncated(`the log ends before commit ${toSeq}, which was folded from it`);
  }

  /** What was archived is passed over: reading begins with the first commit that the log has. */
  async #passArchived(): Promise<void> {
    const beginning = await this.#log.beginning?.();
    if (beginning === undefined || beginning.seq <= this.#head.seq + 1) return;
    const first = await recordAt(this.#log, beginning.offset);
    const commit = first && parseCommit(first.value);
    if (commit?.seq !== beginning.seq)
      throw new LogTruncated(`the log does not have its commit ${beginning.seq}`);
    // A checkpoint changes no signers, so they are those of the commit before, too.
    this.#head = {
      log: beginning.log,
      seq: beginning.seq - 1,
      hash: commit.prev,
      signers: beginning.signers,
    };
    this.#offset = beginning.offset;
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
