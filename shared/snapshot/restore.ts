/**
 * The commits that restore a state on a new log: made from the rows of a snapshot, they fold to the same rows, with every
 * id, hash, time and author. Not restored is what the fleet reports again within seconds (who owns a node, whether it is up,
 * what it has loaded) and what belonged to the old log alone (its commits, and the commands it recognises as repeats).
 */
import { commitBytesMax } from '../../schemas/commit.ts';
import type { EventTypeName } from '../../schemas/event-definitions.ts';
import { type KnownEvent, type StoredEvent, toStored } from '../../schemas/events.ts';
import type { PlaceKey } from '../../schemas/names.ts';
import type { Database } from '../runtime/sqlite.ts';
import { parseColumn } from '../runtime/table-columns.ts';
import { anonymousTier } from './fold-types.ts';
import { type RowOf, type TableName, tableSpecs } from './tables.ts';

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

/** Tables whose rows the fleet reports again, or that are derived from such rows. */
export const ephemeralTables: ReadonlySet<TableName> = new Set(['node', 'routes']);

/** Half of what a commit may have, so that one more large event and the envelope still fit. */
const commitBytesTarget = commitBytesMax / 2;
const commitEventsMax = 1000;

/** In an order in which each can be folded. Throws a ZodError where no event could have made a row: the state is damaged. */
export function* restoreCommits(db: Database, context: RestoreContext): Generator<RestoredCommit> {
  const { nowMs, by } = context;
  const stamp = { atMs: nowMs, by };
  const stamped = (events: KnownEvent[]) => events.map((event) => ({ event, stamp }));
  yield* batchIntoCommits(stamped(plainEvents(db)));
  yield* eventsByTimestamp(db, 'stack', 'created_at', { name: by }, (row) => [
    known('stack.created', { id: row.id, organisation: row.organisation, surface: row.surface }),
  ]);
  const installs = rows(db, 'stack_model').map((row) => known('stack.model_installed', { ...row }));
  yield* batchIntoCommits(stamped(installs));
  yield* batchIntoCommits(stamped(nodeEvents(db)));
  yield* eventsByTimestamp(db, 'node_token', 'created_at', { name: by }, ({ id, node, hash }) => [
    known('node.token_created', { id, node, hash: hex(hash) }),
  ]);
  yield* eventsByTimestamp(db, 'node_token', 'revoked_at', { name: by }, ({ id }) => [
    known('node.token_revoked', { id }),
  ]);
  yield* eventsByTimestamp(db, 'api_key', 'created_at', { column: 'created_by' }, keyCreated);
  yield* eventsByTimestamp(db, 'api_key', 'revoked_at', { column: 'revoked_by' }, ({ id }) => [
    known('key.revoked', { id }),
  ]);
}

function keyCreated(row: RowOf<'api_key'>): KnownEvent[] {
  const { id, organisation, name, expires, expires_at: expiresAt } = row;
  const hash = row.hash && hex(row.hash);
  return [
    known('key.created', {
      id,
      organisation,
      name,
      hash,
      expires,
      expiresAt: expiresAt === null ? null : momentOf(expiresAt),
    }),
  ];
}

function plainEvents(db: Database): KnownEvent[] {
  return [
    ...rows(db, 'model').map((row) => known('model.set', { ...row, added: momentOf(row.added) })),
    ...rows(db, 'tier').map((row) => tierEvent(db, row)),
    ...rows(db, 'organisation').map(({ id, name, tier, anchor }) =>
      known('organisation.set', { id, name, tier, anchor }),
    ),
    ...rows(db, 'organisation')
      .filter(({ suspended }) => suspended === 1)
      .map(({ id }) => known('organisation.suspended', { id, suspended: true })),
    ...rows(db, 'member').map((row) => known('member.set', { ...row })),
    ...rows(db, 'pool_model').map((row) => known('pool.model_installed', { ...row })),
    ...rows(db, 'bounds').map(boundsEvent),
    ...rows(db, 'usage_adjustment').map((row) => known('usage.adjusted', { ...row })),
  ];
}

function tierEvent(db: Database, row: RowOf<'tier'>): KnownEvent {
  const models = db.prepare('SELECT model FROM tier_model WHERE tier = ? ORDER BY model').pluck().all(row.id);
  const limits = present({
    requestsPerMinute: row.requests_per_minute,
    concurrency: row.concurrency,
    contextTokens: row.context_tokens,
  });
  const selection = { ...limits, models: models.includes('*') ? '*' : models };
  if (row.id === anonymousTier) return visitorsEvent(row, selection);
  const monthly = present({ monthlyTokens: row.monthly_tokens });
  return known('tier.set', { id: row.id, rank: row.rank, ...selection, ...monthly });
}

function visitorsEvent(row: RowOf<'tier'>, selection: object): KnownEvent {
  const factor = present({ networkFactor: row.network_factor });
  const total = present({
    requestsPerMinute: row.total_requests_per_minute,
    concurrency: row.total_concurrency,
    tokensPerDay: row.total_tokens_per_day,
  });
  const totals = Object.keys(total).length > 0 && { total };
  return known('anonymous.set', { ...selection, freeTurns: row.free_turns, ...factor, ...totals });
}

function boundsEvent(row: RowOf<'bounds'>): KnownEvent {
  const bounds = present({
    activeKeysPerOrganisation: row.active_keys_per_organisation,
    keysPerOrganisation: row.keys_per_organisation,
    commandsPerPersonPerMinute: row.commands_per_person_per_minute,
    commandsPerOrganisationPerMinute: row.commands_per_organisation_per_minute,
  });
  return known('bounds.set', bounds);
}

function nodeEvents(db: Database): KnownEvent[] {
  const nodes = rows(db, 'node');
  const registered = nodes.map(({ id, place, url, dialect, credential, models, agent }) =>
    known('node.registered', {
      id,
      place: placeOf(place),
      url,
      dialect,
      ...present({ credential, models: models === null ? null : parseColumn(models) }),
      agent: agent === 1,
    }),
  );
  const drained = nodes.filter((node) => node.drained === 1);
  return [...registered, ...drained.map(({ id }) => known('node.drained', { id }))];
}

function placeOf(text: PlaceKey): object {
  const [kind, id] = text.split(':');
  return kind === 'pool' ? { kind } : { kind, id };
}

/** Events of rows in the order of time and author, which come from their commit. Rows without that time make no event. */
function* eventsByTimestamp<Name extends 'stack' | 'node_token' | 'api_key'>(
  db: Database,
  table: Name,
  time: keyof RowOf<Name> & string,
  author: { readonly column: string } | { readonly name: string },
  eventsOf: (row: RowOf<Name>) => KnownEvent[],
): Generator<RestoredCommit> {
  const by = 'column' in author ? author.column : 'NULL';
  // A key that was revoked before it was created has no hash.
  const condition = time === 'created_at' && table === 'api_key' ? 'AND hash IS NOT NULL' : '';
  const found = db
    .prepare<[], RowOf<Name> & { _at: number; _by: string | null }>(
      `SELECT *, ${time} AS _at, ${by} AS _by FROM ${table} WHERE ${time} IS NOT NULL ${condition} ORDER BY _at, _by, id`,
    )
    .iterate();
  const events: Stamped[] = [];
  for (const row of found) {
    const stamp = { atMs: row._at, by: 'name' in author ? author.name : String(row._by) };
    for (const event of eventsOf(row)) events.push({ event, stamp });
  }
  yield* batchIntoCommits(events);
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

function rows<Name extends TableName>(db: Database, table: Name): RowOf<Name>[] {
  // Marks say where in the old log a row was set.
  const columns = Object.keys(tableSpecs[table].columns).join(', ');
  return db.prepare<[], RowOf<Name>>(`SELECT ${columns} FROM ${table}`).all();
}

/** Checked by the schema of the event when it is stored. */
function known(type: EventTypeName, data: object): KnownEvent {
  return { type, data } as KnownEvent;
}

function present(fields: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null));
}

function momentOf(ms: number): string {
  return new Date(ms).toISOString();
}

function hex(hash: Buffer): string {
  return hash.toString('hex');
}
