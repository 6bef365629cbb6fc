/**
 * The commits that restore a state on a new log: made from the rows of a snapshot, they fold to the same rows, with every
 * id, hash, time and author. Not restored is what the fleet reports again within seconds (who owns a node, whether it is up,
 * what it has loaded) and what belonged to the old log alone (its commits, and the commands it recognises as repeats).
 */
import { commitBytesMax } from '../../schemas/commit.ts';
import { type KnownEvent, type StoredEvent, toStored } from '../../schemas/events.ts';
import type { Database } from '../runtime/sqlite.ts';
import { momentOf } from './effect.ts';
import { eventEffects } from './effects.ts';
import type { TableName } from './tables.ts';

/** The events of one commit, with the time and the author of their rows. */
export interface RestoredCommit {
  readonly at: string;
  readonly by: string;
  readonly events: readonly StoredEvent[];
}

export interface RestoreContext {
  /** For rows that carry no time, ms since 1970. */
  readonly nowMs: number;
  /** For rows that carry no author. */
  readonly by: string;
}

/** Tables whose rows the fleet reports again, or that are derived from such rows; and what is over on the old log. */
export const ephemeralTables: ReadonlySet<TableName> = new Set(['node', 'routes', 'closed_change']);

/** Half of what a commit may have, so that one more large event and the envelope still fit. */
const commitBytesTarget = commitBytesMax / 2;
const commitEventsMax = 1000;

/** In the order of the effects. Throws a ZodError where no event could have made a row: the state is damaged. */
export function restoreCommits(db: Database, context: RestoreContext): Iterable<RestoredCommit> {
  return batchIntoCommits(restoredEvents(db, context));
}

function* restoredEvents(db: Database, { nowMs, by }: RestoreContext): Generator<Stamped> {
  for (const [type, { restore }] of Object.entries(eventEffects)) {
    if (typeof restore === 'string') continue;
    for (const { data, ...row } of restore.all(db))
      yield {
        // Checked by the schema of the event when it is stored.
        event: { type, data } as KnownEvent,
        stamp: { atMs: row.atMs ?? nowMs, by: row.by ?? by },
      };
  }
}

interface Stamp {
  readonly atMs: number;
  readonly by: string;
}

interface Stamped {
  readonly event: KnownEvent;
  readonly stamp: Stamp;
}

/** Consecutive events of one time and author make commits of a bounded size. */
function* batchIntoCommits(events: Iterable<Stamped>): Generator<RestoredCommit> {
  let batch: StoredEvent[] = [];
  let bytes = 0;
  let stamp: Stamp | undefined;
  for (const { event, stamp: next } of events) {
    const stored = toStored(event);
    const size = Buffer.byteLength(JSON.stringify(stored));
    const isSame = stamp?.atMs === next.atMs && stamp.by === next.by;
    const isFull = batch.length >= commitEventsMax || bytes + size > commitBytesTarget;
    if (stamp && batch.length > 0 && (!isSame || isFull)) {
      yield { at: momentOf(stamp.atMs), by: stamp.by, events: batch };
      [batch, bytes] = [[], 0];
    }
    batch.push(stored);
    bytes += size;
    stamp = next;
  }
  if (stamp) yield { at: momentOf(stamp.atMs), by: stamp.by, events: batch };
}
