/** Finds out which event in a commit set a given row, and returns its type, author and reason. */

import { createHash } from 'node:crypto';
import { type Commit, parseCommit } from '../../schemas/events/commit.ts';
import type { Because } from '../../schemas/records/explanations.ts';
import type { Read } from '../../shared/decision/step.ts';
import type { ControlLog, LogRecord } from '../../shared/log/core/control-log.ts';
import { explains } from '../../shared/snapshot/effects.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';

export async function becauseOf(
  { log, snapshot }: { readonly log: ControlLog; readonly snapshot: Snapshot },
  mark: Read,
  seq: number,
): Promise<Because | undefined> {
  const commit = await findCommit(log, snapshot, seq);
  if (commit === undefined) return undefined;
  const { by, at, why } = commit;
  const type = findEventType(commit, mark);
  return { position: seq, type, by, at, ...(why !== undefined && { why }) };
}

function findEventType({ events }: Commit, { table, id, mark }: Read): string {
  const ofRow = events.filter(({ data }) => isAbout(data, table, id));
  // A tier's models are set by the same event as the tier.
  const of = table === 'tier_model' ? 'tier' : table;
  const found = ofRow.findLast(({ type }) => explains(type, of, mark)) ?? ofRow.at(-1);
  // The rows of a removed organisation or stack are removed with it and have no event of their own, so report the removal.
  return (found ?? events.findLast(({ type }) => type.endsWith('.removed')) ?? events[0])?.type ?? 'no_op';
}

function isAbout(data: unknown, table: string, id: string): boolean {
  if (typeof data !== 'object' || data === null) return false;
  const fields = data as Readonly<Record<string, unknown>>;
  if (table === 'pool_model') return fields['model'] === id && fields['stack'] === undefined;
  if (table === 'tier_model') return isAbout(data, 'tier', id.slice(0, id.indexOf('/')));
  if (table === 'stack_model') return `${String(fields['stack'])}/${String(fields['model'])}` === id;
  return fields['id'] === id || (id === 'anonymous' && fields['freeTurns'] !== undefined);
}

const recordsPerRead = 50;

/** Reads a commit from the log. Returns undefined if the state does not contain it. Throws the errors of the log's `tail`. */
async function findCommit(log: ControlLog, snapshot: Snapshot, seq: number): Promise<Commit | undefined> {
  if (seq < 1 || seq > snapshot.seq) return undefined;
  // The commit is not after this offset, because each later commit takes up at least one record before the head.
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

/** Whether the fold accepted the record. The journal has no hashes of old commits, so their position alone is trusted. */
function isFolded({ value }: LogRecord, folded: string | undefined): boolean {
  return folded === undefined || createHash('sha256').update(value).digest('hex') === folded;
}
