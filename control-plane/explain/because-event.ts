/** Returns the event of a commit that set a row, with its type, author and reason. */
import type { Commit } from '../../schemas/events/commit.ts';
import type { Because } from '../../schemas/records/explanations.ts';
import type { Read } from '../../shared/decision/step.ts';
import type { ControlLog } from '../../shared/log/core/control-log.ts';
import { explains } from '../../shared/snapshot/effects.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { commitAt } from '../state/commit-at.ts';

export async function becauseOf(
  { log, snapshot }: { readonly log: ControlLog; readonly snapshot: Snapshot },
  mark: Read,
  seq: number,
): Promise<Because | undefined> {
  const commit = await commitAt(log, snapshot, seq);
  if (commit === undefined) return undefined;
  const { by, at, why } = commit;
  const type = typeIn(commit, mark);
  return { position: seq, type, by, at, ...(why !== undefined && { why }) };
}

function typeIn({ events }: Commit, { table, id, mark }: Read): string {
  const ofRow = events.filter(({ data }) => isAbout(data, table, id));
  // A tier's models are set together with the tier.
  const of = table === 'tier_model' ? 'tier' : table;
  const found = ofRow.findLast(({ type }) => explains(type, of, mark)) ?? ofRow.at(-1);
  // Rows of a removed organisation or stack are removed with it.
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
