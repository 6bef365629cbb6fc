/** The event of a commit that set a row: its type, its author and the reason. */
import type { Commit } from '../../schemas/commit.ts';
import type { Because } from '../../schemas/explanations.ts';
import type { StepMark } from '../../shared/decision/step-texts.ts';
import type { ControlLog } from '../../shared/log/core/control-log.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { commitAt } from '../state/commit-at.ts';

/** The types of the events that set the aspect of a row. */
const typesOf: Readonly<Record<string, RegExp>> = {
  drained_set_at: /^node\.(?:un)?drained$/,
  up_set_at: /^node\.(?:health_changed|registered)$/,
  loaded_set_at: /^node\.(?:health_changed|registered)$/,
  suspended_set_at: /^organisation\.suspended$/,
  tier_set_at: /^organisation\.set$/,
  surface_set_at: /^stack\.(?:surface_set|created)$/,
};
const typesByTable: Readonly<Record<string, RegExp>> = {
  tier: /^(?:tier|anonymous)\./,
  tier_model: /^(?:tier|anonymous)\./,
  organisation: /^organisation\./,
  api_key: /^key\./,
  stack: /^stack\./,
  stack_model: /^stack\.model_/,
  pool_model: /^pool\.model_/,
  node: /^node\./,
};

export async function becauseOf(
  { log, snapshot }: { readonly log: ControlLog; readonly snapshot: Snapshot },
  mark: StepMark,
  seq: number,
): Promise<Because | undefined> {
  const commit = await commitAt(log, snapshot, seq);
  if (commit === undefined) return undefined;
  const { by, at, why } = commit;
  const type = typeIn(commit, mark);
  return { position: seq, type, by, at, ...(why !== undefined && { why }) };
}

function typeIn({ events }: Commit, { table, id, mark }: StepMark): string {
  const types = (mark === undefined ? undefined : typesOf[mark]) ?? typesByTable[table];
  const ofRow = events.filter(({ data }) => isAbout(data, table, id));
  const found = ofRow.findLast(({ type }) => types?.test(type)) ?? ofRow.at(-1);
  // What a removed organisation or stack had is removed with it.
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
