/**
 * The look-up: the few questions a request may ask of the snapshot, each one prepared read.
 * SQLite is the index; there is no second copy in memory to keep right.
 */
import type { Dialect, Surface } from '../../schemas/names.ts';
import type { Database, Statement } from '../sqlite.ts';
import { anonymousTier } from './fold-types.ts';

/** Limits of a tier; null is unlimited. */
export interface Tier {
  readonly id: string;
  readonly rank: number | null;
  readonly requestsPerMinute: number | null;
  readonly concurrency: number | null;
  readonly contextTokens: number | null;
  readonly monthlyTokens: number | null;
  readonly freeTurns: number | null;
}

export interface KeyOwner {
  readonly keyId: string;
  readonly organisation: string;
  readonly revoked: boolean;
  /** ms since 1970; null: never. */
  readonly expiresAtMs: number | null;
  readonly suspended: boolean;
  /** First day of a billing period, YYYY-MM-DD. */
  readonly anchor: string;
  /** null: no inference entitlement. */
  readonly tier: Tier | null;
}

export interface Route {
  readonly node: string;
  /** The engine's name for the model. */
  readonly served: string;
  readonly url: string;
  readonly dialect: Dialect;
  /** Name of the node's credential, if it wants one. */
  readonly credential: string | null;
  /** Context window of the model at this node, tokens; null where the engine does not tell. */
  readonly windowTokens: number | null;
}

export interface ListedModel {
  readonly id: string;
  readonly family: string;
  readonly addedMs: number;
}

export interface Lookup {
  /** The organisation a key resolves to; undefined for an unknown key or a removed organisation. */
  keyOwner(hash: Buffer): KeyOwner | undefined;
  anonymousTier(): Tier | undefined;
  stack(id: string): { readonly organisation: string; readonly surface: Surface } | undefined;
  /** Nodes that serve the model for the place now. */
  routes(place: string, model: string): Route[];
  isPooled(model: string): boolean;
  tierIncludes(tier: string, model: string): boolean;
  isCatalogued(model: string): boolean;
  /** What one request of the model counts against the concurrency allowance. */
  weight(model: string): number;
  /** The id of the tier above, or undefined for the top one. */
  nextTier(rank: number): string | undefined;
  /** Models that some node of the place serves now, newest first. */
  listing(place: string): ListedModel[];
  /** Tokens given back or taken by hand in a period. */
  usageAdjustment(organisation: string, period: string): number;
  /** `seq` of the commit the answers are of. */
  position(): number;
}

const tierColumns = `t.id AS tierId, t.rank, t.requests_per_minute, t.concurrency, t.context_tokens, t.monthly_tokens, t.free_turns`;

interface TierRow {
  readonly tierId: string | null;
  readonly rank: number | null;
  readonly requests_per_minute: number | null;
  readonly concurrency: number | null;
  readonly context_tokens: number | null;
  readonly monthly_tokens: number | null;
  readonly free_turns: number | null;
}

interface KeyRow extends TierRow {
  readonly id: string;
  readonly organisation: string;
  readonly revoked_at: number | null;
  readonly expires_at: number | null;
  readonly suspended: number;
  readonly anchor: string;
}

function tierOf(row: TierRow): Tier | null {
  if (row.tierId === null) return null;
  return {
    id: row.tierId,
    rank: row.rank,
    requestsPerMinute: row.requests_per_minute,
    concurrency: row.concurrency,
    contextTokens: row.context_tokens,
    monthlyTokens: row.monthly_tokens,
    freeTurns: row.free_turns,
  };
}

/** Prepares the questions over one snapshot's database. */
export function createLookup(db: Database): Lookup {
  const ask = <Row, Parameters extends unknown[]>(sql: string): Statement<Parameters, Row> =>
    db.prepare(sql) as Statement<Parameters, Row>;
  const key = ask<KeyRow, [Buffer]>(
    `SELECT k.id, k.organisation, k.revoked_at, k.expires_at, o.suspended, o.anchor, ${tierColumns}
     FROM api_key k JOIN organisation o ON o.id = k.organisation LEFT JOIN tier t ON t.id = o.tier WHERE k.hash = ?`,
  );
  const anonymous = ask<TierRow, []>(`SELECT ${tierColumns} FROM tier t WHERE t.id = '${anonymousTier}'`);
  const stack = ask<{ organisation: string; surface: Surface }, [string]>(
    'SELECT organisation, surface FROM stack WHERE id = ?',
  );
  const routes = ask<Route, [string, string]>(
    'SELECT node, served, url, dialect, credential, window_tokens AS windowTokens FROM routes WHERE place = ? AND model = ?',
  );
  const pooled = ask<unknown, [string]>('SELECT 1 FROM pool_model WHERE model = ?');
  const includes = ask<unknown, [string, string]>(
    `SELECT 1 FROM tier_model WHERE tier = ? AND model IN (?, '*')`,
  );
  const weight = ask<{ weight: number }, [string]>('SELECT weight FROM model WHERE id = ?');
  const next = ask<{ id: string }, [number]>('SELECT id FROM tier WHERE rank > ? ORDER BY rank LIMIT 1');
  const listing = ask<ListedModel, [string]>(
    `SELECT DISTINCT m.id, m.family, m.added AS addedMs FROM routes r JOIN model m ON m.id = r.model
     WHERE r.place = ? ORDER BY m.added DESC, m.id`,
  );
  const adjustment = ask<{ tokens: number }, [string, string]>(
    'SELECT tokens FROM usage_adjustment WHERE organisation = ? AND period = ?',
  );
  const position = ask<{ seq: number }, []>('SELECT seq FROM position');
  return {
    keyOwner: (hash) => {
      const row = key.get(hash);
      if (!row) return undefined;
      return {
        keyId: row.id,
        organisation: row.organisation,
        revoked: row.revoked_at !== null,
        expiresAtMs: row.expires_at,
        suspended: row.suspended === 1,
        anchor: row.anchor,
        tier: tierOf(row),
      };
    },
    anonymousTier: () => {
      const row = anonymous.get();
      return row ? (tierOf(row) ?? undefined) : undefined;
    },
    stack: (id) => stack.get(id),
    routes: (place, model) => routes.all(place, model),
    isPooled: (model) => pooled.get(model) !== undefined,
    tierIncludes: (tier, model) => includes.get(tier, model) !== undefined,
    isCatalogued: (model) => weight.get(model) !== undefined,
    weight: (model) => weight.get(model)?.weight ?? 1,
    nextTier: (rank) => next.get(rank)?.id,
    listing: (place) => listing.all(place),
    usageAdjustment: (organisation, period) => adjustment.get(organisation, period)?.tokens ?? 0,
    position: () => position.get()?.seq ?? 0,
  };
}
