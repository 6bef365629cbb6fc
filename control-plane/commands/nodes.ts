/**
 * Deciders for nodes and the tokens of their agents. A token is bound to one node; its value is shown once.
 * A node is registered once; its place and address change only through a fleet file.
 */
import type { Place } from '../../schemas/names.ts';
import { hashSecret, mintId, mintNodeToken, type RandomSource } from '../../shared/ids/api-key.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { findNode, findToken } from '../state/capacity.ts';
import { type CommandPlan, defineCommands } from './definition.ts';
import { idsFrom, needAll } from './many.ts';
import { needFree, needNode, needOrganisation, needStack, needToken } from './preconditions.ts';

function needPlace(db: Database, place: Place): void {
  if (place.kind === 'stack') needStack(db, place.id);
  if (place.kind === 'organisation') needOrganisation(db, place.id);
}

/** The event that creates a token, and its value. */
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
    decide: (db, { params: { id } }) =>
      needNode(db, id).drained ? { events: [] } : { events: [{ type: 'node.drained', data: { id } }] },
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
        const ids = idsFrom('tok', subject, items.length);
        const made = items.map(({ node }, index) => createdToken(ids[index] ?? '', node, mint));
        const shown = made.map(({ event: { data }, value }) => ({ id: data.id, node: data.node, value }));
        return { events: made.map(({ event }) => event), subject, secret: { items: shown } };
      },
      show: (_db, { body: { items } }, subject = '') => {
        const ids = idsFrom('tok', subject, items.length);
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
