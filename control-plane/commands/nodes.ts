/**
 * Deciders for nodes and the tokens of their agents. A token is bound to one node; its value is shown once.
 * A node is registered once; its place and address change only through a fleet file.
 */
import { bodySchemas, pathSchemas } from '../../schemas/commands.ts';
import type { Place } from '../../schemas/names.ts';
import { hashSecret, mintId, mintNodeToken } from '../../shared/ids/api-key.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { findNode, findToken } from '../state/capacity.ts';
import { defineCommand } from './definition.ts';
import { needFree, needNode, needOrganisation, needStack, needToken } from './preconditions.ts';

function needPlace(db: Database, place: Place): void {
  if (place.kind === 'stack') needStack(db, place.id);
  if (place.kind === 'organisation') needOrganisation(db, place.id);
}

const registerNode = defineCommand({
  name: 'node.register',
  method: 'POST',
  path: '/nodes',
  summary: 'Register an inference server at the pool, a stack or an organisation',
  params: pathSchemas.none,
  body: bodySchemas.registerNode,
  bodyKind: 'list',
  roles: 'operator',
  decide: (db, { body }) => {
    needFree(findNode(db, body.id), 'node', body.id);
    needPlace(db, body.place);
    return { events: [{ type: 'node.registered', data: { ...body, agent: body.agent ?? false } }] };
  },
  show: (db, { body: { id } }) => findNode(db, id) ?? { id },
});

const removeNode = defineCommand({
  name: 'node.delete',
  method: 'DELETE',
  path: '/nodes/:id',
  summary: 'Remove a node with its tokens',
  params: pathSchemas.id,
  body: undefined,
  roles: 'operator',
  decide: (db, { params: { id } }) => {
    needNode(db, id);
    return { events: [{ type: 'node.removed', data: { id } }] };
  },
  show: (_db, { params: { id } }) => ({ id }),
});

const drainNode = defineCommand({
  name: 'node.drain',
  method: 'POST',
  path: '/nodes/:id/drain',
  summary: 'Give a node no new requests; those in flight finish',
  params: pathSchemas.id,
  body: undefined,
  roles: 'operator',
  decide: (db, { params: { id } }) =>
    needNode(db, id).drained ? { events: [] } : { events: [{ type: 'node.drained', data: { id } }] },
  show: (db, { params: { id } }) => findNode(db, id) ?? { id },
});

const undrainNode = defineCommand({
  name: 'node.undrain',
  method: 'POST',
  path: '/nodes/:id/undrain',
  summary: 'Give a drained node requests again',
  params: pathSchemas.id,
  body: undefined,
  roles: 'operator',
  decide: (db, { params: { id } }) =>
    needNode(db, id).drained ? { events: [{ type: 'node.undrained', data: { id } }] } : { events: [] },
  show: (db, { params: { id } }) => findNode(db, id) ?? { id },
});

const createToken = defineCommand({
  name: 'node-token.create',
  method: 'POST',
  path: '/nodes/:id/tokens',
  summary: "Create a token for a node's agent; its value is in this answer only",
  params: pathSchemas.id,
  body: undefined,
  roles: 'operator',
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
});

const revokeToken = defineCommand({
  name: 'node-token.revoke',
  method: 'POST',
  path: '/tokens/:id/revoke',
  summary: "Revoke a token and close its agent's session",
  params: pathSchemas.id,
  body: undefined,
  roles: 'operator',
  decide: (db, { params: { id } }) =>
    needToken(db, id).state === 'revoked'
      ? { events: [] }
      : { events: [{ type: 'node.token_revoked', data: { id } }] },
  show: (db, { params: { id } }) => findToken(db, id) ?? { id },
});

export const nodeCommands = [registerNode, removeNode, drainNode, undrainNode, createToken, revokeToken];
