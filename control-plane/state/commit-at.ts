/**
 * Finds one commit of the log by its position, without reading the whole log. Skipped records take up offsets too, so
 * positions and offsets differ.
 */
import { createHash } from 'node:crypto';
import { type Commit, parseCommit } from '../../schemas/events/commit.ts';
import type { ControlLog, LogRecord } from '../../shared/log/core/control-log.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';

const recordsPerRead = 50;

/** Returns undefined if the commit is missing or is not the one that was folded. Throws the errors of a tail. */
export async function commitAt(
  log: ControlLog,
  snapshot: Snapshot,
  seq: number,
): Promise<Commit | undefined> {
  if (seq < 1 || seq > snapshot.seq) return undefined;
  // At least one record per commit lies between the commit and the head.
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

/** Commits older than the journal are accepted by their position alone. */
function isFolded({ value }: LogRecord, folded: string | undefined): boolean {
  return folded === undefined || createHash('sha256').update(value).digest('hex') === folded;
}
