/**
 * Deciders for stacks, for the pool, and for what is installed on them.
 * The id of a stack is generated here unless it is given; if two replicas generate the same id, the chain accepts the first only.
 */
import { bodySchemas, pathSchemas } from '../../schemas/commands.ts';
import type { RandomSource } from '../../shared/ids/api-key.ts';
import { mintStackId } from '../../shared/ids/stack-id.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { CommandError } from '../core/command-error.ts';
import { findPool, findStack } from '../state/capacity.ts';
import { managingRoles } from './authorise.ts';
import { defineCommand } from './definition.ts';
import { needFree, needModel, needOrganisation, needStack } from './preconditions.ts';

const mintsMax = 16;

function freeStackId(db: Database, mint: RandomSource): string {
  for (let tries = 0; tries < mintsMax; tries++) {
    const id = mintStackId(mint);
    if (!findStack(db, id)) return id;
  }
  throw new CommandError('Conflict', 'no free stack id was found', { next: 'give an id of your own' });
}

function notInstalled(model: string, where: string): CommandError {
  return new CommandError('NotFound', `the model ${model} is not installed on ${where}`);
}

const createStack = defineCommand({
  name: 'stack.create',
  method: 'POST',
  path: '/stacks',
  summary: 'Create a stack for an organisation',
  params: pathSchemas.none,
  body: bodySchemas.createStack,
  roles: 'operator',
  decide: (db, { body: { organisation, id: wanted, surface = 'openai' } }, { mint }) => {
    needOrganisation(db, organisation);
    const id = wanted ?? freeStackId(db, mint);
    needFree(findStack(db, id), 'stack', id);
    return { events: [{ type: 'stack.created', data: { id, organisation, surface } }], subject: id };
  },
  show: (db, _input, subject = '') => findStack(db, subject) ?? { id: subject },
});

const removeStack = defineCommand({
  name: 'stack.delete',
  method: 'DELETE',
  path: '/stacks/:id',
  summary: 'Remove a stack with its installs and nodes',
  params: pathSchemas.stack,
  body: undefined,
  roles: 'operator',
  decide: (db, { params: { id } }) => {
    needStack(db, id);
    return { events: [{ type: 'stack.removed', data: { id } }] };
  },
  show: (_db, { params: { id } }) => ({ id }),
});

const setSurface = defineCommand({
  name: 'stack.set-surface',
  method: 'PUT',
  path: '/stacks/:id/surface',
  summary: 'Switch a stack to the OpenAI or the Anthropic surface',
  params: pathSchemas.stack,
  body: bodySchemas.setSurface,
  roles: managingRoles,
  organisationOf: (db, { params: { id } }) => findStack(db, id)?.organisation,
  decide: (db, { params: { id }, body: { surface } }) =>
    needStack(db, id).surface === surface
      ? { events: [] }
      : { events: [{ type: 'stack.surface_set', data: { id, surface } }] },
  show: (db, { params: { id } }) => findStack(db, id) ?? { id },
});

const installOnStack = defineCommand({
  name: 'stack.install',
  method: 'PUT',
  path: '/stacks/:id/models/:model',
  summary: 'Install a model on a stack',
  params: pathSchemas.stackModel,
  body: undefined,
  roles: managingRoles,
  organisationOf: (db, { params: { id } }) => findStack(db, id)?.organisation,
  decide: (db, { params: { id: stack, model } }) => {
    const { models } = needStack(db, stack);
    needModel(db, model);
    if (models.includes(model)) return { events: [] };
    return { events: [{ type: 'stack.model_installed', data: { stack, model } }] };
  },
  show: (db, { params: { id } }) => findStack(db, id) ?? { id },
});

const uninstallFromStack = defineCommand({
  name: 'stack.uninstall',
  method: 'DELETE',
  path: '/stacks/:id/models/:model',
  summary: 'Uninstall a model from a stack',
  params: pathSchemas.stackModel,
  body: undefined,
  roles: managingRoles,
  organisationOf: (db, { params: { id } }) => findStack(db, id)?.organisation,
  decide: (db, { params: { id: stack, model } }) => {
    if (!needStack(db, stack).models.includes(model)) throw notInstalled(model, stack);
    return { events: [{ type: 'stack.model_uninstalled', data: { stack, model } }] };
  },
  show: (db, { params: { id } }) => findStack(db, id) ?? { id },
});

const installOnPool = defineCommand({
  name: 'pool.install',
  method: 'PUT',
  path: '/pool/models/:model',
  summary: 'Install a model on the pool',
  params: pathSchemas.poolModel,
  body: undefined,
  roles: 'operator',
  decide: (db, { params: { model } }) => {
    needModel(db, model);
    if (findPool(db).models.includes(model)) return { events: [] };
    return { events: [{ type: 'pool.model_installed', data: { model } }] };
  },
  show: (db) => findPool(db),
});

const uninstallFromPool = defineCommand({
  name: 'pool.uninstall',
  method: 'DELETE',
  path: '/pool/models/:model',
  summary: 'Uninstall a model from the pool',
  params: pathSchemas.poolModel,
  body: undefined,
  roles: 'operator',
  decide: (db, { params: { model } }) => {
    if (!findPool(db).models.includes(model)) throw notInstalled(model, 'the pool');
    return { events: [{ type: 'pool.model_uninstalled', data: { model } }] };
  },
  show: (db) => findPool(db),
});

export const stackCommands = [
  createStack,
  removeStack,
  setSurface,
  installOnStack,
  uninstallFromStack,
  installOnPool,
  uninstallFromPool,
];
