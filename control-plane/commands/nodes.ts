/**
 * Deciders for nodes and the tokens of their agents. A token is bound to one node; its value is shown once.
 * A node is registered once; its place and address change only through a fleet file.
 */
import type { Place } from '../../schemas/names.ts';
import { hashSecret, mintId, mintNodeToken } from '../../shared/ids/api-key.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { findNode, findToken } from '../state/capacity.ts';
import { defineCommands } from './definition.ts';
import { needFree, needNode, needOrganisation, needStack, needToken } from './preconditions.ts';

function needPlace(db: Database, place: Place): void {
  if (place.kind === 'stack') needStack(db, place.id);
  if (place.kind === 'organisation') needOrganisation(db, place.id);
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
    decide: (db, { params: { id: node } }, { mint }) => {
      needNode(db, node);
      const id = mintId(mint, 'tok');
      const value = mintNodeToken(mint);
      const hash = hashSecret(value).toString('hex');
      return {
        events: [{ type: 'node.token_created', data: { id, node, hash } }],
        subject: id,
        secret: { value },
      };
    },
    show: (db, _input, subject = '') => findToken(db, subject) ?? { id: subject },
  },
  'node-token.revoke': {
    decide: (db, { params: { id } }) =>
      needToken(db, id).state === 'revoked'
        ? { events: [] }
        : { events: [{ type: 'node.token_revoked', data: { id } }] },
    show: (db, { params: { id } }) => findToken(db, id) ?? { id },
  },
});
