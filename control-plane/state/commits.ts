/** The accepted commits of the log, read anew from its first record: what lists of events and past states are made of. */
import type { Commit } from '../../schemas/commit.ts';
import { emptyHead, type Head, judge } from '../../shared/log/chain.ts';
import type { ControlLog, LogRecord } from '../../shared/log/control-log.ts';

export interface AcceptedRecord {
  readonly commit: Commit;
  readonly record: LogRecord;
}

/** Reads commits in order and remembers where it is. */
export class CommitReader {
  readonly #log: ControlLog;
  #head: Head;
  #offset = 0;

  constructor(log: ControlLog, logId: string | null) {
    this.#log = log;
    this.#head = emptyHead(logId);
  }

  /** `seq` of the last commit read. */
  get seq(): number {
    return this.#head.seq;
  }

  /** Yields the commits not yet read up to `toSeq`, batch by batch; ends at the log's end as it is now. Throws what a tail throws. */
  async *upTo(toSeq: number): AsyncIterable<AcceptedRecord[]> {
    if (this.#head.seq >= toSeq) return;
    const end = await this.#log.end();
    if (this.#offset >= end) return;
    for await (const batch of this.#log.tail({ from: this.#offset, recordsMax: 500 })) {
      const accepted = this.#take(batch.records, toSeq);
      if (accepted.length > 0) yield accepted;
      if (this.#head.seq >= toSeq || batch.nextOffset >= end) return;
    }
  }

  #take(records: readonly LogRecord[], toSeq: number): AcceptedRecord[] {
    const accepted: AcceptedRecord[] = [];
    for (const record of records) {
      if (this.#head.seq >= toSeq) break;
      const judgement = judge(this.#head, record);
      this.#offset = record.offset + 1;
      if (!('accepted' in judgement)) continue;
      this.#head = judgement.head;
      accepted.push({ commit: judgement.accepted, record });
    }
    return accepted;
  }
}
