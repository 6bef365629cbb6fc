/**
 * Reads of models, tiers, the visitors' limits and the bounds of members, as the admin API shows it.
 * Reads only; a list is complete unless a limit is given.
 */
import type { Anonymous, Model, Tier } from '../../schemas/admin.ts';
import { type Overweight, overweightPairs } from '../../schemas/overweight.ts';
import { type Bounds, boundDefaults } from '../../schemas/shapes.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import type { RowOf } from '../../shared/snapshot/tables.ts';
import type { Listing } from './list-page.ts';
import { all, first, moment, present } from './statements.ts';

type Limits = Pick<Tier, 'requestsPerMinute' | 'concurrency' | 'contextTokens'>;

/** Of a tier: only the visitors' limits have no rank. */
interface TierRow extends RowOf<'tier'> {
  readonly rank: number;
}

function toModel(row: RowOf<'model'>): Model {
  return {
    id: row.id,
    family: row.family,
    added: moment(row.added) ?? '',
    weight: row.weight,
    affinity: row.affinity,
  };
}

export function listModels(db: Database): Model[] {
  return all<RowOf<'model'>>(db, 'SELECT * FROM model ORDER BY id').map(toModel);
}

export function modelIds(db: Database): string[] {
  return all<{ id: string }>(db, 'SELECT id FROM model ORDER BY id').map(({ id }) => id);
}

export const modelListing: Listing<RowOf<'model'>, Model> = {
  table: 'model',
  indexed: ['id'],
  sorts: { id: 'id', family: 'family', added: 'added', weight: 'weight' },
  searched: ['id', 'family'],
  key: ['id'],
  item: toModel,
};

export function findModel(db: Database, id: string): Model | undefined {
  const row = first<RowOf<'model'>>(db, 'SELECT * FROM model WHERE id = ?', id);
  return row && toModel(row);
}

function tierModels(db: Database, tier: string): '*' | string[] {
  const rows = all<{ model: string }>(db, 'SELECT model FROM tier_model WHERE tier = ? ORDER BY model', tier);
  return rows.some(({ model }) => model === '*') ? '*' : rows.map(({ model }) => model);
}

function limitsOf(row: RowOf<'tier'>): Limits {
  return present({
    requestsPerMinute: row.requests_per_minute,
    concurrency: row.concurrency,
    contextTokens: row.context_tokens,
  });
}

function toTier(db: Database, row: TierRow): Tier {
  const { id, rank } = row;
  const allowance = present({ monthlyTokens: row.monthly_tokens });
  return { id, rank, ...limitsOf(row), ...allowance, models: tierModels(db, id) };
}

/** Lowest first. */
export function listTiers(db: Database): Tier[] {
  const sql = 'SELECT * FROM tier WHERE rank IS NOT NULL ORDER BY rank, id';
  return all<TierRow>(db, sql).map((row) => toTier(db, row));
}

export const tierListing: Listing<TierRow, Tier> = {
  table: 'tier',
  unlisted: 'rank IS NULL',
  from: '(SELECT * FROM tier WHERE rank IS NOT NULL)',
  indexed: ['id'],
  sorts: { rank: 'rank', id: 'id' },
  searched: ['id'],
  key: ['id'],
  item: (row, db) => toTier(db, row),
};

export function findTier(db: Database, id: string): Tier | undefined {
  const row = first<TierRow>(db, 'SELECT * FROM tier WHERE id = ? AND rank IS NOT NULL', id);
  return row && toTier(db, row);
}

/** undefined: visitors have no limits of their own, and are not served. */
export function findAnonymous(db: Database): Anonymous | undefined {
  const row = first<RowOf<'tier'>>(db, 'SELECT * FROM tier WHERE rank IS NULL');
  if (row === undefined) return undefined;
  const factor = present({ networkFactor: row.network_factor });
  const total = present({
    requestsPerMinute: row.total_requests_per_minute,
    concurrency: row.total_concurrency,
    tokensPerDay: row.total_tokens_per_day,
  });
  return {
    freeTurns: row.free_turns ?? 0,
    ...factor,
    ...limitsOf(row),
    models: tierModels(db, row.id),
    ...(Object.keys(total).length > 0 && { total }),
  };
}

/** The pairs of the present tiers and models that `overweight.ts` is about. */
export function listOverweight(db: Database): Overweight[] {
  return overweightPairs({ models: listModels(db), tiers: listTiers(db), anonymous: findAnonymous(db) });
}

/** As the fleet sets them; undefined where it does not. */
export function findBoundsSet(db: Database): Partial<Bounds> | undefined {
  const row = first<RowOf<'bounds'>>(db, 'SELECT * FROM bounds');
  return (
    row &&
    present({
      activeKeysPerOrganisation: row.active_keys_per_organisation,
      keysPerOrganisation: row.keys_per_organisation,
      commandsPerPersonPerMinute: row.commands_per_person_per_minute,
      commandsPerOrganisationPerMinute: row.commands_per_organisation_per_minute,
    })
  );
}

/** As they hold. */
export function findBounds(db: Database): Bounds {
  return { ...boundDefaults, ...findBoundsSet(db) };
}

/** Everything that refers to a model. */
export interface ModelUses {
  readonly pool: boolean;
  readonly stacks: readonly string[];
  readonly tiers: readonly string[];
  readonly anonymous: boolean;
}

export function usesOfModel(db: Database, model: string): ModelUses {
  const stacks = all<{ stack: string }>(
    db,
    'SELECT stack FROM stack_model WHERE model = ? ORDER BY stack',
    model,
  );
  const tiers = all<{ id: string; rank: number | null }>(
    db,
    'SELECT id, rank FROM tier JOIN tier_model ON tier = id WHERE model = ? ORDER BY rank, id',
    model,
  );
  return {
    pool: first(db, 'SELECT 1 FROM pool_model WHERE model = ?', model) !== undefined,
    stacks: stacks.map(({ stack }) => stack),
    tiers: tiers.filter(({ rank }) => rank !== null).map(({ id }) => id),
    anonymous: tiers.some(({ rank }) => rank === null),
  };
}
