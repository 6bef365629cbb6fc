/** Reads models, tiers, visitors' limits and members' bounds for the admin API. Lists are complete if no limit is given. */
import type { Model, Tier } from '../../schemas/admin/admin.ts';
import { type Overweight, overweightPairs } from '../../schemas/events/overweight.ts';
import { type Bounds, boundDefaults } from '../../schemas/shapes.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { all, first, readColumn } from '../../shared/runtime/statements.ts';
import { anonymousTier } from '../../shared/snapshot/effect.ts';
import {
  bounds,
  models,
  type TierRow,
  tiers,
  toModel,
  toTier,
  visitors,
} from '../../shared/snapshot/effects-tenants.ts';
import type { RowOf } from '../../shared/snapshot/tables.ts';
import type { Listing } from './list-page.ts';

export function listModels(db: Database): Model[] {
  return all<RowOf<'model'>>(db, 'SELECT * FROM model ORDER BY id').map(toModel);
}

export function modelIds(db: Database): string[] {
  return readColumn(db, 'SELECT id FROM model ORDER BY id');
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
  return models.at(db, id);
}

/** Lists all tiers, lowest first. */
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
  return tiers.at(db, id);
}

/** Returns the limits of visitors, or undefined if visitors are not served. */
export function findAnonymous(db: Database) {
  return visitors.at(db, anonymousTier);
}

/** Lists pairs of a tier and a model whose weight exceeds the tier's concurrency. */
export function listOverweight(db: Database): Overweight[] {
  return overweightPairs({ models: listModels(db), tiers: listTiers(db), anonymous: findAnonymous(db) });
}

/** Returns the bounds that the fleet sets, or undefined if it does not set any. */
export function findBoundsSet(db: Database): Partial<Bounds> | undefined {
  return bounds.at(db, 'fleet');
}

/** Returns the bounds in force, with defaults filled in. */
export function findBounds(db: Database): Bounds {
  return { ...boundDefaults, ...findBoundsSet(db) };
}

export interface ModelUses {
  readonly pool: boolean;
  readonly stacks: readonly string[];
  readonly tiers: readonly string[];
  readonly anonymous: boolean;
}

export function usesOfModel(db: Database, model: string): ModelUses {
  const ranked = all<{ id: string; rank: number | null }>(
    db,
    'SELECT id, rank FROM tier JOIN tier_model ON tier = id WHERE model = ? ORDER BY rank, id',
    model,
  );
  return {
    pool: first(db, 'SELECT 1 FROM pool_model WHERE model = ?', model) !== undefined,
    stacks: readColumn(db, 'SELECT stack FROM stack_model WHERE model = ? ORDER BY stack', model),
    tiers: ranked.filter(({ rank }) => rank !== null).map(({ id }) => id),
    anonymous: ranked.some(({ rank }) => rank === null),
  };
}
