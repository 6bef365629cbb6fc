/** All reads of the state: the view of each, for the present and for the past. */
import type { NodeResource, ParamsOf, StateReadName } from '../../schemas/admin.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import type { State } from '../../shared/snapshot/views.ts';
import { exportFleet } from '../commands/fleet.ts';
import {
  findNode,
  findPool,
  findStack,
  findToken,
  nodeListing,
  stackListing,
  tokenListing,
} from '../state/capacity.ts';
import {
  findAnonymous,
  findBounds,
  findModel,
  findTier,
  modelListing,
  tierListing,
} from '../state/catalog.ts';
import { type Listing, type ListPage, listPage, type PageQuery } from '../state/list-page.ts';
import {
  findKey,
  findOrganisation,
  keyListing,
  memberListing,
  organisationListing,
} from '../state/tenants.ts';

/** What a read depends on in addition to the path. */
export type ReadQuery = Omit<PageQuery, 'owner'> & { readonly organisation?: string | undefined };

interface StateRead<Params> {
  /** The organisation whose members may read it; undefined: operators only. */
  organisationOf?(db: Database, params: Params, query: ReadQuery): string | undefined;
  /** A list, a resource, or undefined where it does not exist. `live` adds what an agent reported last. */
  read(
    db: Database,
    params: Params,
    query: ReadQuery,
    live: (node: NodeResource) => NodeResource,
  ): ListPage<unknown> | readonly unknown[] | object | undefined;
}

/** The rows of the organisation that the query names, or of all. */
function ownPage<Row, Item>(db: Database, listing: Listing<Row, Item>, query: ReadQuery): ListPage<Item> {
  return listPage(db, listing, { ...query, owner: query.organisation });
}

const own = (_db: Database, _params: unknown, query: ReadQuery): string | undefined => query.organisation;

const reads: { readonly [Name in StateReadName]: StateRead<NonNullable<ParamsOf<Name>>> } = {
  'organisation.list': {
    read: (db, _p, q) => listPage(db, organisationListing, q),
  },
  'organisation.get': {
    organisationOf: (_db, { id }) => id,
    read: (db, { id }) => findOrganisation(db, id),
  },
  'member.list': {
    organisationOf: own,
    read: (db, _p, q) => ownPage(db, memberListing, q),
  },
  'tier.list': { read: (db, _p, q) => listPage(db, tierListing, q) },
  'tier.get': {
    read: (db, { id }) => findTier(db, id),
  },
  'anonymous.get': { read: (db) => findAnonymous(db) },
  'bounds.get': { read: findBounds },
  'model.list': {
    read: (db, _p, q) => listPage(db, modelListing, q),
  },
  'model.get': {
    read: (db, { id }) => findModel(db, id),
  },
  'key.list': {
    organisationOf: own,
    read: (db, _p, q) => ownPage(db, keyListing, q),
  },
  'key.get': {
    organisationOf: (db, { id }, { nowMs }) => findKey(db, id, nowMs)?.organisation,
    read: (db, { id }, { nowMs }) => findKey(db, id, nowMs),
  },
  'stack.list': {
    organisationOf: own,
    read: (db, _p, q) => ownPage(db, stackListing, q),
  },
  'stack.get': {
    organisationOf: (db, { id }) => findStack(db, id)?.organisation,
    read: (db, { id }) => findStack(db, id),
  },
  'pool.get': { read: (db) => findPool(db) },
  'node.list': {
    read: (db, _p, q, live) => listPage(db, nodeListing, q).map(live),
  },
  'node.get': {
    read: (db, { id }, _q, live) => {
      const node = findNode(db, id);
      return node && live(node);
    },
  },
  'node-token.list': {
    read: (db, { id }, q) => listPage(db, tokenListing, { ...q, owner: id }),
  },
  'node-token.get': { read: (db, { id }) => findToken(db, id) },
  'fleet.get': { read: (db) => exportFleet(db) },
};

export function inWaveOf({ overlaid }: State, row: object | undefined): object {
  if (overlaid === undefined) return {};
  const { change, wave, waves } = overlaid;
  return { inWave: { change, wave, waves, row: row ?? null } };
}

/** What the path names, as its schema has parsed it. */
export type ReadParams = Readonly<Record<string, string>>;
export const stateReads: Readonly<Record<StateReadName, StateRead<ReadParams>>> = reads;
