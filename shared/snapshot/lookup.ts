/**
 * The look-up: the queries that a request may run on the snapshot, each one a prepared statement.
 * SQLite is the index; there is no second copy in memory to keep consistent.
 */
import type {
  Dialect,
  KeyId,
  NodeId,
  OrganisationId,
  PlaceKey,
  StackId,
  Surface,
} from '../../schemas/names.ts';
import { type Database, prepare } from '../runtime/sqlite.ts';
import { anonymousTier } from './effect.ts';
import { installsIn, servedModels } from './routes.ts';
import type { RowOf } from './tables.ts';

/** Limits of a tier; null is unlimited. */
export interface TierLimits {
  readonly id: string;
  readonly rank: number | null;
  readonly requestsPerMinute: number | null;
  readonly concurrency: number | null;
  readonly contextTokens: number | null;
  readonly monthlyTokens: number | null;
  readonly freeTurns: number | null;
}

/** Limits of a network and of all visitors together; null is unlimited. */
export interface VisitorTotals {
  /** Turns that a network has in a day, as a multiple of a visitor's. */
  readonly networkFactor: number;
  readonly requestsPerMinute: number | null;
  readonly concurrency: number | null;
  readonly tokensPerDay: number | null;
}

const networkFactorDefault = 8;

export interface KeyOwner {
  readonly keyId: KeyId;
  readonly organisation: OrganisationId;
  readonly revoked: boolean;
  /** ms since 1970; null: never. */
  readonly expiresAtMs: number | null;
  readonly suspended: boolean;
  /** First day of a billing period, YYYY-MM-DD. */
  readonly anchor: string;
  /** null: no inference entitlement. */
  readonly tier: TierLimits | null;
}

export interface Route {
  readonly node: NodeId;
  /** The engine's name for the model. */
  readonly served: string;
  readonly url: string;
  readonly dialect: Dialect;
  /** Name of the node's credential, if it needs one. */
  readonly credential: string | null;
  /** Context window of the model at this node, tokens; null where the engine does not report it. */
  readonly windowTokens: number | null;
  /** The model is known to take images. */
  readonly takesImages: boolean;
  /** The model is known to rerank, and to do nothing else. */
  readonly reranks: boolean;
}

export interface ServedModel {
  readonly id: string;
  readonly family: string;
  readonly addedMs: number;
}

export interface Lookup {
  /** The organisation a key resolves to; undefined for an unknown key or a removed organisation. */
  keyOwner(hash: Buffer): KeyOwner | undefined;
  /** The same by the id of the key, for a decision that is made again. */
  keyOwnerById(id: string): KeyOwner | undefined;
  /** What any good key of the organisation resolves to, without a key. */
  organisationOwner(id: string): KeyOwner | undefined;
  anonymousTier(): TierLimits | undefined;
  /** undefined: visitors are not served. */
  visitorTotals(): VisitorTotals | undefined;
  stack(id: StackId): { readonly organisation: OrganisationId; readonly surface: Surface } | undefined;
  /** Of one organisation, by id. */
  stacksOf(organisation: OrganisationId): readonly { readonly id: StackId; readonly surface: Surface }[];
  /** Nodes that serve the model for the place now. */
  routes(place: PlaceKey, model: string): readonly Route[];
  isPooled(model: string): boolean;
  /** Whether a node of the place that is down or drained now had the model loaded last. */
  loadedLast(place: PlaceKey, model: string): boolean;
  tierIncludes(tier: string, model: string): boolean;
  isCatalogued(model: string): boolean;
  /** What one request of the model counts against the concurrency allowance. */
  weight(model: string): number;
  /** Whether prompts for the model that begin alike go to one node. */
  hasAffinity(model: string): boolean;
  /** The id of the next tier above with more tokens a period than these; undefined where none has. */
  nextTier(rank: number, monthlyTokens: number): string | undefined;
  /** Models that some node of the place serves now, newest first. */
  listing(place: PlaceKey): ServedModel[];
  /** Tokens added to or subtracted from the usage of a period by an operator. */
  usageAdjustment(organisation: OrganisationId, period: string): number;
  /** `seq` of the last commit that the look-up reflects. */
  position(): number;
}

const tierColumns = `t.id AS tierId, t.rank, t.requests_per_minute, t.concurrency, t.context_tokens, t.monthly_tokens, t.free_turns`;

type TierRow = readonly [
  id: string | null,
  rank: number | null,
  requestsPerMinute: number | null,
  concurrency: number | null,
  contextTokens: number | null,
  monthlyTokens: number | null,
  freeTurns: number | null,
];
type KeyRow = readonly [
  id: KeyId,
  organisation: OrganisationId,
  revokedAt: number | null,
  expiresAt: number | null,
  suspended: number,
  anchor: string,
  ...tier: TierRow,
];
type RouteRow = readonly [
  node: NodeId,
  served: string,
  url: string,
  dialect: Dialect,
  credential: string | null,
  windowTokens: number | null,
  takesImages: number,
  reranks: number,
];

function tierOf(row: TierRow): TierLimits | null {
  const [id, rank, requestsPerMinute, concurrency, contextTokens, monthlyTokens, freeTurns] = row;
  if (id === null) return null;
  return { id, rank, requestsPerMinute, concurrency, contextTokens, monthlyTokens, freeTurns };
}

function ownerOf([
  keyId,
  organisation,
  revokedAt,
  expiresAtMs,
  suspended,
  anchor,
  ...tier
]: KeyRow): KeyOwner {
  return {
    keyId,
    organisation,
    revoked: revokedAt !== null,
    expiresAtMs,
    suspended: suspended === 1,
    anchor,
    tier: tierOf(tier),
  };
}

function routeOf([
  node,
  served,
  url,
  dialect,
  credential,
  windowTokens,
  takesImages,
  reranks,
]: RouteRow): Route {
  const known = { takesImages: takesImages === 1, reranks: reranks === 1 };
  return { node, served, url, dialect, credential, windowTokens, ...known };
}

function visitorTotalsOf(db: Database): Lookup['visitorTotals'] {
  const totals = prepare<
    readonly [factor: number | null, requests: number | null, inFlight: number | null, tokens: number | null],
    []
  >(
    db,
    `SELECT network_factor, total_requests_per_minute, total_concurrency, total_tokens_per_day
     FROM tier WHERE id = '${anonymousTier}'`,
  ).raw();
  return () => {
    const row = totals.get();
    if (row === undefined) return undefined;
    const [factor, requestsPerMinute, concurrency, tokensPerDay] = row;
    return { networkFactor: factor ?? networkFactorDefault, requestsPerMinute, concurrency, tokensPerDay };
  };
}

function stacksOf(db: Database): Lookup['stacksOf'] {
  const stacks = prepare<Pick<RowOf<'stack'>, 'id' | 'surface'>, [string]>(
    db,
    'SELECT id, surface FROM stack WHERE organisation = ? ORDER BY id',
  );
  return (organisation) => stacks.all(organisation);
}

/** Prepares the statements on one snapshot's database. */
export function createLookup(db: Database): Lookup {
  const ask = <Row, Parameters extends unknown[]>(sql: string) => prepare<Row, Parameters>(db, sql);
  // Arrays and single values cost half of what objects do; each request runs several of these.
  const askLists = <Row, Parameters extends unknown[]>(sql: string) => ask<Row, Parameters>(sql).raw();
  const askOne = <Value, Parameters extends unknown[]>(sql: string) => ask<Value, Parameters>(sql).pluck();
  const keys = `SELECT k.id, k.organisation, k.revoked_at, k.expires_at, o.suspended, o.anchor, ${tierColumns}
     FROM api_key k JOIN organisation o ON o.id = k.organisation LEFT JOIN tier t ON t.id = o.tier`;
  const key = askLists<KeyRow, [Buffer]>(`${keys} WHERE k.hash = ?`);
  const keyById = askLists<KeyRow, [string]>(`${keys} WHERE k.id = ? AND k.hash IS NOT NULL`);
  const ownerWithoutKey = askLists<KeyRow, [string]>(
    `SELECT '', o.id, NULL, NULL, o.suspended, o.anchor, ${tierColumns}
     FROM organisation o LEFT JOIN tier t ON t.id = o.tier WHERE o.id = ?`,
  );
  const anonymous = askLists<TierRow, []>(
    `SELECT ${tierColumns} FROM tier t WHERE t.id = '${anonymousTier}'`,
  );
  const stack = ask<Pick<RowOf<'stack'>, 'organisation' | 'surface'>, [string]>(
    'SELECT organisation, surface FROM stack WHERE id = ?',
  );
  const routes = askLists<RouteRow, [string, string]>(
    'SELECT node, served, url, dialect, credential, window_tokens, takes_images, reranks FROM routes WHERE place = ? AND model = ?',
  );
  const away = ask<Pick<RowOf<'node'>, 'loaded' | 'models'>, [string]>(
    'SELECT loaded, models FROM node WHERE place = ? AND (up = 0 OR drained = 1)',
  );
  const isInstalled = installsIn(db);
  const includes = askOne<number, [string, string, string]>(
    `SELECT EXISTS (SELECT 1 FROM tier_model WHERE tier = ? AND model = ?)
         OR EXISTS (SELECT 1 FROM tier_model WHERE tier = ? AND model = '*')`,
  );
  const weight = askOne<number, [string]>('SELECT weight FROM model WHERE id = ?');
  const affinity = askOne<'prefix' | 'none', [string]>('SELECT affinity FROM model WHERE id = ?');
  const next = askOne<string, [number, number]>(
    `SELECT id FROM tier WHERE rank > ? AND (monthly_tokens IS NULL OR monthly_tokens > ?)
     ORDER BY rank LIMIT 1`,
  );
  const listing = ask<ServedModel, [string]>(
    `SELECT DISTINCT m.id, m.family, m.added AS addedMs FROM routes r JOIN model m ON m.id = r.model
     WHERE r.place = ? ORDER BY m.added DESC, m.id`,
  );
  const adjustment = askOne<number, [string, string]>(
    'SELECT tokens FROM usage_adjustment WHERE organisation = ? AND period = ?',
  );
  const position = askOne<number, []>('SELECT seq FROM position');
  const owner = (row: KeyRow | undefined) => row && ownerOf(row);
  return {
    keyOwner: (hash) => owner(key.get(hash)),
    keyOwnerById: (id) => owner(keyById.get(id)),
    organisationOwner: (id) => owner(ownerWithoutKey.get(id)),
    anonymousTier: () => {
      const row = anonymous.get();
      return row ? (tierOf(row) ?? undefined) : undefined;
    },
    visitorTotals: visitorTotalsOf(db),
    stack: (id) => stack.get(id),
    stacksOf: stacksOf(db),
    routes: (place, model) => (isInstalled(place, model) ? routes.all(place, model).map(routeOf) : []),
    isPooled: (model) => isInstalled('pool', model),
    loadedLast: (place, model) => away.all(place).some((node) => servedModels(node).has(model)),
    tierIncludes: (tier, model) => includes.get(tier, model, tier) === 1,
    isCatalogued: (model) => weight.get(model) !== undefined,
    weight: (model) => weight.get(model) ?? 1,
    hasAffinity: (model) => affinity.get(model) !== 'none',
    nextTier: (rank, monthlyTokens) => next.get(rank, monthlyTokens),
    listing: (place) => listing.all(place).filter(({ id }) => isInstalled(place, id)),
    usageAdjustment: (organisation, period) => adjustment.get(organisation, period) ?? 0,
    position: () => position.get() ?? 0,
  };
}
