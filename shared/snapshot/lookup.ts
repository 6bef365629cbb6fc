/** Contains every query that a request may run on the snapshot, as prepared statements. Look-ups never write. */
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
import type { OpenOverlay } from './waves.ts';

/** Limits that a tier sets. null means unlimited. */
export interface TierLimits {
  readonly id: string;
  readonly rank: number | null;
  readonly requestsPerMinute: number | null;
  readonly concurrency: number | null;
  readonly contextTokens: number | null;
  readonly monthlyTokens: number | null;
  readonly freeTurns: number | null;
}

/** Limits on each visitor network and on all visitors together; null means unlimited. */
export interface VisitorTotals {
  /** Daily turns allowed per network, as a multiple of those allowed per visitor. */
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
  /** Time when the key expires, in ms since 1970. null if it never expires. */
  readonly expiresAtMs: number | null;
  readonly suspended: boolean;
  /** Start date of a billing period, YYYY-MM-DD. The other periods are counted from it. */
  readonly anchor: string;
  /** Tier of the organisation. null if the organisation may not use inference. */
  readonly tier: TierLimits | null;
}

export interface Route {
  readonly node: NodeId;
  /** Name by which the node's inference engine knows the model. */
  readonly served: string;
  readonly url: string;
  readonly dialect: Dialect;
  /** Name of the credential that the gateway sends to the node, or null if the node does not need one. */
  readonly credential: string | null;
  /** Context window of the model at this node, in tokens. null if the engine does not report it. */
  readonly windowTokens: number | null;
  /** Whether the model is known to accept images. */
  readonly takesImages: boolean;
  /** Whether the model is known to rerank documents and do nothing else. */
  readonly reranks: boolean;
}

export interface ServedModel {
  readonly id: string;
  readonly family: string;
  readonly addedMs: number;
}

export interface Lookup {
  /** Returns the key's owner, or undefined if the key is unknown or its organisation was removed. */
  keyOwner(hash: Buffer): KeyOwner | undefined;
  /** Returns the owner of the key with this id. Used when a decision is replayed. */
  keyOwnerById(id: string): KeyOwner | undefined;
  /** Returns the owner to which any valid key of the organisation would resolve. */
  organisationOwner(id: string): KeyOwner | undefined;
  anonymousTier(): TierLimits | undefined;
  /** Limits on visitors, or undefined if visitors are not served. */
  visitorTotals(): VisitorTotals | undefined;
  stack(id: StackId): { readonly organisation: OrganisationId; readonly surface: Surface } | undefined;
  /** Returns the organisation's stacks, sorted by id. */
  listStacks(organisation: OrganisationId): readonly { readonly id: StackId; readonly surface: Surface }[];
  /** Returns the nodes that currently serve the model at the place. */
  routes(place: PlaceKey, model: string): readonly Route[];
  isPooled(model: string): boolean;
  /** Whether a node of the place that is now down or drained had the model loaded when it last reported. */
  loadedLast(place: PlaceKey, model: string): boolean;
  tierIncludes(tier: string, model: string): boolean;
  isCatalogued(model: string): boolean;
  /** Number of concurrent requests that one request for this model counts as. */
  weight(model: string): number;
  /** Whether the gateway sends prompts for this model that begin alike to the same node. */
  hasAffinity(model: string): boolean;
  /** Id of the next higher tier that includes the model and allows more tokens per period, or undefined if there is none. */
  nextTier(rank: number, monthlyTokens: number, model: string): string | undefined;
  /** Returns the models that at least one node of the place currently serves, newest first. */
  listing(place: PlaceKey): ServedModel[];
  /** Number of tokens by which operators have corrected the organisation's usage in a period. May be negative. */
  usageAdjustment(organisation: OrganisationId, period: string): number;
  /** Number (`seq`) of the last commit that the look-up reflects. */
  position(): number;
  /** The open change whose rows this look-up reads instead of the base rows, or undefined if it reads only base rows. */
  overlaid(): OpenOverlay | undefined;
}

/** Maps each property of a row to a column, or to an SQL expression. */
type Columns<Row> = { readonly [Name in keyof Row]: string };

type TierRow = { readonly [Name in keyof TierLimits]: TierLimits[Name] | null };
const tierColumns: Columns<TierRow> = {
  id: 't.id',
  rank: 't.rank',
  requestsPerMinute: 't.requests_per_minute',
  concurrency: 't.concurrency',
  contextTokens: 't.context_tokens',
  monthlyTokens: 't.monthly_tokens',
  freeTurns: 't.free_turns',
};

interface OwnerRow extends TierRow, Pick<KeyOwner, 'keyId' | 'organisation' | 'expiresAtMs' | 'anchor'> {
  readonly revokedAt: number | null;
  readonly suspended: number;
}
const ownerColumns: Columns<OwnerRow> = {
  keyId: 'k.id',
  organisation: 'o.id',
  revokedAt: 'k.revoked_at',
  expiresAtMs: 'k.expires_at',
  suspended: 'o.suspended',
  anchor: 'o.anchor',
  ...tierColumns,
};

interface RouteRow extends Omit<Route, 'takesImages' | 'reranks'> {
  readonly takesImages: number;
  readonly reranks: number;
}
const routeColumns: Columns<RouteRow> = {
  node: 'node',
  served: 'served',
  url: 'url',
  dialect: 'dialect',
  credential: 'credential',
  windowTokens: 'window_tokens',
  takesImages: 'takes_images',
  reranks: 'reranks',
};

type TotalsRow = { readonly [Name in keyof VisitorTotals]: VisitorTotals[Name] | null };
const totalsColumns: Columns<TotalsRow> = {
  networkFactor: 'network_factor',
  requestsPerMinute: 'total_requests_per_minute',
  concurrency: 'total_concurrency',
  tokensPerDay: 'total_tokens_per_day',
};

/** Prepares a SELECT that returns rows as objects. Building them here costs half as much as letting the driver do so. */
function prepareRows<Row, Parameters extends unknown[]>(db: Database, columns: Columns<Row>, rest: string) {
  const names = Object.keys(columns);
  const list = Object.values<string>(columns).join(', ');
  const statement = prepare<readonly unknown[], Parameters>(db, `SELECT ${list} ${rest}`).raw();
  const rowOf = (values: readonly unknown[]): Row => {
    const row: Record<string, unknown> = {};
    for (let at = 0; at < names.length; at += 1) row[names[at] as string] = values[at];
    return row as Row;
  };
  return {
    get(...parameters: Parameters): Row | undefined {
      const values = statement.get(...parameters);
      return values && rowOf(values);
    },
    all: (...parameters: Parameters): Row[] => statement.all(...parameters).map(rowOf),
  };
}

function toTierLimits(row: TierRow): TierLimits | null {
  const { id, rank, requestsPerMinute, concurrency, contextTokens, monthlyTokens, freeTurns } = row;
  if (id === null) return null;
  return { id, rank, requestsPerMinute, concurrency, contextTokens, monthlyTokens, freeTurns };
}

function toKeyOwner(row: OwnerRow): KeyOwner {
  const { keyId, organisation, revokedAt, expiresAtMs, suspended, anchor } = row;
  return {
    keyId,
    organisation,
    revoked: revokedAt !== null,
    expiresAtMs,
    suspended: suspended === 1,
    anchor,
    tier: toTierLimits(row),
  };
}

function toRoute(row: RouteRow): Route {
  return { ...row, takesImages: row.takesImages === 1, reranks: row.reranks === 1 };
}

function prepareOwners(db: Database): Pick<Lookup, 'keyOwner' | 'keyOwnerById' | 'organisationOwner'> {
  const keys =
    'FROM api_key k JOIN organisation o ON o.id = k.organisation LEFT JOIN tier t ON t.id = o.tier';
  const byHash = prepareRows<OwnerRow, [Buffer]>(db, ownerColumns, `${keys} WHERE k.hash = ?`);
  const byId = prepareRows<OwnerRow, [string]>(
    db,
    ownerColumns,
    `${keys} WHERE k.id = ? AND k.hash IS NOT NULL`,
  );
  const withoutKey = prepareRows<OwnerRow, [string]>(
    db,
    { ...ownerColumns, keyId: "''", revokedAt: 'NULL', expiresAtMs: 'NULL' },
    'FROM organisation o LEFT JOIN tier t ON t.id = o.tier WHERE o.id = ?',
  );
  const owner = (row: OwnerRow | undefined): KeyOwner | undefined => row && toKeyOwner(row);
  return {
    keyOwner: (hash) => owner(byHash.get(hash)),
    keyOwnerById: (id) => owner(byId.get(id)),
    organisationOwner: (id) => owner(withoutKey.get(id)),
  };
}

function prepareVisitorTotals(db: Database): Lookup['visitorTotals'] {
  const totals = prepareRows<TotalsRow, []>(db, totalsColumns, `FROM tier WHERE id = '${anonymousTier}'`);
  return () => {
    const row = totals.get();
    return row && { ...row, networkFactor: row.networkFactor ?? networkFactorDefault };
  };
}

function prepareStacks(db: Database): Lookup['listStacks'] {
  const stacks = prepare<Pick<RowOf<'stack'>, 'id' | 'surface'>, [string]>(
    db,
    'SELECT id, surface FROM stack WHERE organisation = ? ORDER BY id',
  );
  return (organisation) => stacks.all(organisation);
}

/** Prepares all statements on one snapshot's database. */
export function createLookup(db: Database): Lookup {
  const ask = <Row, Parameters extends unknown[]>(sql: string) => prepare<Row, Parameters>(db, sql);
  const askOne = <Value, Parameters extends unknown[]>(sql: string) => ask<Value, Parameters>(sql).pluck();
  const anonymous = prepareRows<TierRow, []>(db, tierColumns, `FROM tier t WHERE t.id = '${anonymousTier}'`);
  const stack = ask<Pick<RowOf<'stack'>, 'organisation' | 'surface'>, [string]>(
    'SELECT organisation, surface FROM stack WHERE id = ?',
  );
  const routes = prepareRows<RouteRow, [string, string]>(
    db,
    routeColumns,
    'FROM routes WHERE place = ? AND model = ?',
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
  const next = askOne<string, [number, number, string]>(
    `SELECT id FROM tier t WHERE rank > ? AND (monthly_tokens IS NULL OR monthly_tokens > ?)
       AND EXISTS (SELECT 1 FROM tier_model WHERE tier = t.id AND model IN (?, '*'))
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
  return {
    ...prepareOwners(db),
    anonymousTier: () => {
      const row = anonymous.get();
      return row ? (toTierLimits(row) ?? undefined) : undefined;
    },
    visitorTotals: prepareVisitorTotals(db),
    stack: (id) => stack.get(id),
    listStacks: prepareStacks(db),
    routes: (place, model) => (isInstalled(place, model) ? routes.all(place, model).map(toRoute) : []),
    isPooled: (model) => isInstalled('pool', model),
    loadedLast: (place, model) => away.all(place).some((node) => servedModels(node).has(model)),
    tierIncludes: (tier, model) => includes.get(tier, model, tier) === 1,
    isCatalogued: (model) => weight.get(model) !== undefined,
    weight: (model) => weight.get(model) ?? 1,
    hasAffinity: (model) => affinity.get(model) !== 'none',
    nextTier: (rank, monthlyTokens, model) => next.get(rank, monthlyTokens, model),
    listing: (place) => listing.all(place).filter(({ id }) => isInstalled(place, id)),
    usageAdjustment: (organisation, period) => adjustment.get(organisation, period) ?? 0,
    position: () => position.get() ?? 0,
    overlaid: () => undefined,
  };
}
