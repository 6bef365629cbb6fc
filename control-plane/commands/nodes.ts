/** Decides commands on nodes and agents' tokens. Only a fleet document can change a registered node's place and address. */
import type { NodeResource } from '../../schemas/admin/admin.ts';
import { groupDigits } from '../../schemas/grouped.ts';
import type { Place, PlaceKey } from '../../schemas/names.ts';
import { hashSecret, mintId, mintNodeToken, type RandomSource } from '../../shared/ids/api-key.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { all, first } from '../../shared/runtime/statements.ts';
import { installsIn } from '../../shared/snapshot/routes.ts';
import { CommandError } from '../core/command-error.ts';
import { findNode, findToken } from '../state/capacity.ts';
import { findTier } from '../state/catalog.ts';
import { findOrganisation } from '../state/tenants.ts';
import { type CommandContext, type CommandPlan, defineCommands } from './definition.ts';
import { needAll, numberedIds } from './many.ts';
import { needFree, needNode, needOrganisation, needStack, needToken } from './preconditions.ts';

const listedMax = 10;

function needPlace(db: Database, place: Place): void {
  if (place.kind === 'stack') needStack(db, place.id);
  if (place.kind === 'organisation') needOrganisation(db, place.id);
}

/** Generates a node token. Returns the event that creates it, and its value. */
function createdToken(id: string, node: string, mint: RandomSource) {
  const value = mintNodeToken(mint);
  const hash = hashSecret(value).toString('hex');
  return { event: { type: 'node.token_created' as const, data: { id, node, hash } }, value };
}

function oneToken(db: Database, node: string, mint: RandomSource): CommandPlan {
  needNode(db, node);
  const id = mintId(mint, 'tok');
  const { event, value } = createdToken(id, node, mint);
  return { events: [event], subject: id, secret: { value } };
}

interface OnlyRoute {
  readonly place: PlaceKey;
  readonly model: string;
}

/** Lists models that no other node at the same place serves. */
function onlyRoutes(db: Database, node: string): OnlyRoute[] {
  const others = 'SELECT 1 FROM routes o WHERE o.place = r.place AND o.model = r.model AND o.node <> r.node';
  const sql = `SELECT place, model FROM routes r WHERE node = ? AND NOT EXISTS (${others}) ORDER BY model`;
  return all<OnlyRoute>(db, sql, node);
}

/** Whether the organisation could use the model on the pool if its own nodes did not serve it. */
function isInPool(db: Database, organisation: string, model: string): boolean {
  const tier = findOrganisation(db, organisation)?.tier;
  const models = tier ? findTier(db, tier)?.models : undefined;
  if (models !== '*' && !models?.includes(model)) return false;
  const sql = "SELECT 1 FROM routes JOIN pool_model USING (model) WHERE place = 'pool' AND model = ?";
  return first(db, sql, model) !== undefined;
}

/** Throws a `GuardRefused` error if the node is the last one that serves some model at its place. */
function guardLastNode(db: Database, { id, place }: NodeResource, served: CommandContext['served']): void {
  const isInstalled = installsIn(db);
  const lost = onlyRoutes(db, id).filter(
    (route) =>
      isInstalled(route.place, route.model) &&
      !(place.kind === 'organisation' && isInPool(db, place.id, route.model)),
  );
  if (lost.length === 0) return;
  const names = lost.slice(0, listedMax).map(({ model }) => model);
  const more = lost.length > listedMax ? ` and ${lost.length - listedMax} more` : '';
  const found = lost.flatMap((route) => served?.(route.place, route.model) ?? []);
  const requests = found.reduce((sum, each) => sum + each.requests, 0);
  const count = new Set(found.flatMap(({ organisations }) => organisations)).size;
  const whose = `${count} ${count === 1 ? 'organisation' : 'organisations'} made ${groupDigits(requests)} requests in the last hour`;
  const where = place.kind === 'pool' ? 'the pool' : `the ${place.kind} ${place.id}`;
  throw new CommandError(
    'GuardRefused',
    `no node of ${where} would serve ${names.join(', ')}${more}, for which ${whose}`,
    { next: '--force drains it anyway' },
  );
}

export const nodeCommands = defineCommands({
  'node.register': {
    decide: (db, { body }) => {
      needFree(findNode(db, body.id), 'node', body.id);
      needPlace(db, body.place);
      return { events: [{ type: 'node.registered', data: { ...body, agent: body.agent ?? false } }] };
    },
    show: (db, { body: { id } }) => findNode(db, id) ?? { id },
  },
  'node.delete': {
    decide: (db, { params: { id } }) => {
      needNode(db, id);
      return { events: [{ type: 'node.removed', data: { id } }] };
    },
    show: (_db, { params: { id } }) => ({ id }),
  },
  'node.drain': {
    decide: (db, { params: { id } }, { force, served }) => {
      const node = needNode(db, id);
      if (node.drained) return { events: [] };
      if (!force) guardLastNode(db, node, served);
      return { events: [{ type: 'node.drained', data: { id } }] };
    },
    show: (db, { params: { id } }) => findNode(db, id) ?? { id },
  },
  'node.undrain': {
    decide: (db, { params: { id } }) =>
      needNode(db, id).drained ? { events: [{ type: 'node.undrained', data: { id } }] } : { events: [] },
    show: (db, { params: { id } }) => findNode(db, id) ?? { id },
  },
  'node-token.create': {
    decide: (db, { params: { id: node } }, { mint }) => oneToken(db, node, mint),
    show: (db, _input, subject = '') => findToken(db, subject) ?? { id: subject },
  },
  'token.create': {
    decide: (db, { body: { node } }, { mint }) => oneToken(db, node, mint),
    show: (db, _input, subject = '') => findToken(db, subject) ?? { id: subject },
    many: {
      decide: (db, { body: { items } }, { mint }) => {
        needAll(
          items.map(({ node }) => node),
          {
            ...{ field: 'node', what: 'node', noun: 'node' },
            isThere: (id) => findNode(db, id) !== undefined,
          },
        );
        const subject = mintId(mint, 'tok');
        const ids = numberedIds('tok', subject, items.length);
        const made = items.map(({ node }, index) => createdToken(ids[index] ?? '', node, mint));
        const shown = made.map(({ event: { data }, value }) => ({ id: data.id, node: data.node, value }));
        return { events: made.map(({ event }) => event), subject, secret: { items: shown } };
      },
      show: (_db, { body: { items } }, subject = '') => {
        const ids = numberedIds('tok', subject, items.length);
        return { items: items.map(({ node }, index) => ({ id: ids[index], node })) };
      },
    },
  },
  'node-token.revoke': {
    decide: (db, { params: { id } }) =>
      needToken(db, id).state === 'revoked'
        ? { events: [] }
        : { events: [{ type: 'node.token_revoked', data: { id } }] },
    show: (db, { params: { id } }) => findToken(db, id) ?? { id },
  },
});
