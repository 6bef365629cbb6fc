/** Defines all read operations on the state. The same functions read the current state and past states. */
import type { NodeResource, OperationParams, StateReadName } from '../../schemas/admin/admin.ts';
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

/** Parameters of a read, except those in the path. */
export type ReadQuery = Omit<PageQuery, 'owner'> & { readonly organisation?: string | undefined };

interface StateRead<Params> {
  /** Returns the organisation whose members may read the result, or undefined if only operators may. */
  organisationOf?(db: Database, params: Params, query: ReadQuery): string | undefined;
  /** Returns a list, a resource, or undefined if nothing was found. `live` adds the agent's last report to a node. */
  read(
    db: Database,
    params: Params,
    query: ReadQuery,
    live: (node: NodeResource) => NodeResource,
  ): ListPage<unknown> | readonly unknown[] | object | undefined;
}

type Find = (db: Database, id: string, nowMs: number) => object | undefined;

function one(find: Find): StateRead<{ readonly id: string }> {
  return { read: (db, { id }, { nowMs }) => find(db, id, nowMs) };
}

/** Defines the read of a resource that belongs to the organisation in its row. */
function ownOne<Row extends { readonly organisation: string }>(
  find: (...asked: Parameters<Find>) => Row | undefined,
): StateRead<{ readonly id: string }> {
  return { ...one(find), organisationOf: (db, { id }, { nowMs }) => find(db, id, nowMs)?.organisation };
}

function page<Row, Item>(listing: Listing<Row, Item>): StateRead<unknown> {
  return { read: (db, _params, query) => listPage(db, listing, query) };
}

/** Defines the read of a list. If the query contains an organisation, the list is restricted to it. */
function ownPage<Row, Item>(listing: Listing<Row, Item>): StateRead<unknown> {
  return {
    organisationOf: (_db, _params, { organisation }) => organisation,
    read: (db, _params, query) => listPage(db, listing, { ...query, owner: query.organisation }),
  };
}

const reads: { readonly [Name in StateReadName]: StateRead<NonNullable<OperationParams<Name>>> } = {
  'organisation.list': page(organisationListing),
  'organisation.get': { ...one(findOrganisation), organisationOf: (_db, { id }) => id },
  'member.list': ownPage(memberListing),
  'tier.list': page(tierListing),
  'tier.get': one(findTier),
  'anonymous.get': { read: findAnonymous },
  'bounds.get': { read: findBounds },
  'model.list': page(modelListing),
  'model.get': one(findModel),
  'key.list': ownPage(keyListing),
  'key.get': ownOne(findKey),
  'stack.list': ownPage(stackListing),
  'stack.get': ownOne(findStack),
  'pool.get': { read: findPool },
  'node.list': { read: (db, _p, q, live) => listPage(db, nodeListing, q).map(live) },
  'node.get': {
    read: (db, { id }, _q, live) => {
      const node = findNode(db, id);
      return node && live(node);
    },
  },
  'node-token.list': { read: (db, { id }, q) => listPage(db, tokenListing, { ...q, owner: id }) },
  'node-token.get': one(findToken),
  'fleet.get': { read: exportFleet },
};

export function readInWave({ overlaid }: State, row: object | undefined): object {
  if (overlaid === undefined) return {};
  const { change, wave, waves } = overlaid;
  return { inWave: { change, wave, waves, row: row ?? null } };
}

export type ReadParams = Readonly<Record<string, string>>;
export const stateReads: Readonly<Record<StateReadName, StateRead<ReadParams>>> = reads;
