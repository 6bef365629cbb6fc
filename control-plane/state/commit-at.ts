/** One commit of the log by its position, without reading all before it: a skipped record takes a place too. */
import { createHash } from 'node:crypto';
import { type Commit, parseCommit } from '../../schemas/events/commit.ts';
import type { ControlLog, LogRecord } from '../../shared/log/core/control-log.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';

const recordsPerRead = 50;

/** undefined where it cannot be found, or is not what was folded. Throws what a tail throws. */
export async function commitAt(
  log: ControlLog,
  snapshot: Snapshot,
  seq: number,
): Promise<Commit | undefined> {
  if (seq < 1 || seq > snapshot.seq) return undefined;
  // Between a commit and the head there is at least one record a commit.
  const last = snapshot.headOffset - (snapshot.seq - seq);
  const first = Math.min(seq - 1, last);
  const folded = snapshot.journal.commandAt(seq)?.record;
  for await (const { records, nextOffset } of log.tail({ from: first, recordsMax: recordsPerRead })) {
    for (const record of records) {
      const commit = parseCommit(record.value);
      if (commit?.seq === seq && commit.log === snapshot.log && isFolded(record, folded)) return commit;
    }
    if (nextOffset > last) return undefined;
  }
  return undefined;
}

/** Older commits than the journal has are taken by their position alone. */
function isFolded({ value }: LogRecord, folded: string | undefined): boolean {
  return folded === undefined || createHash('sha256').update(value).digest('hex') === folded;
}
