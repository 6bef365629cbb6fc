/** Decides commands on stacks, the pool and their models. If two replicas generate the same id, the log accepts only one. */
import type { RandomSource } from '../../shared/ids/api-key.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { CommandError } from '../core/command-error.ts';
import { findPool, findStack } from '../state/capacity.ts';
import { defineCommands } from './definition.ts';
import { needFree, needModel, needOrganisation, needStack } from './preconditions.ts';
import { mintStackId } from './stack-id.ts';

const mintsMax = 16;

function freeStackId(db: Database, mint: RandomSource): string {
  for (let tries = 0; tries < mintsMax; tries++) {
    const id = mintStackId(mint);
    if (!findStack(db, id)) return id;
  }
  throw new CommandError('Conflict', 'no free stack id was found', { next: 'choose an id yourself' });
}

function notInstalled(model: string, where: string): CommandError {
  return new CommandError('NotFound', `the model ${model} is not installed on ${where}`);
}

export const stackCommands = defineCommands({
  'stack.create': {
    decide: (db, { body: { organisation, id: wanted, surface = 'openai' } }, { mint }) => {
      needOrganisation(db, organisation);
      const id = wanted ?? freeStackId(db, mint);
      needFree(findStack(db, id), 'stack', id);
      return { events: [{ type: 'stack.created', data: { id, organisation, surface } }], subject: id };
    },
    show: (db, _input, subject = '') => findStack(db, subject) ?? { id: subject },
  },
  'stack.delete': {
    decide: (db, { params: { id } }) => {
      needStack(db, id);
      return { events: [{ type: 'stack.removed', data: { id } }] };
    },
    show: (_db, { params: { id } }) => ({ id }),
  },
  'stack.set-surface': {
    findOrganisation: (db, { params: { id } }) => findStack(db, id)?.organisation,
    decide: (db, { params: { id }, body: { surface } }) =>
      needStack(db, id).surface === surface
        ? { events: [] }
        : { events: [{ type: 'stack.surface_set', data: { id, surface } }] },
    show: (db, { params: { id } }) => findStack(db, id) ?? { id },
  },
  'stack.install': {
    findOrganisation: (db, { params: { id } }) => findStack(db, id)?.organisation,
    decide: (db, { params: { id: stack, model } }) => {
      const { models } = needStack(db, stack);
      needModel(db, model);
      if (models.includes(model)) return { events: [] };
      return { events: [{ type: 'stack.model_installed', data: { stack, model } }] };
    },
    show: (db, { params: { id } }) => findStack(db, id) ?? { id },
  },
  'stack.uninstall': {
    findOrganisation: (db, { params: { id } }) => findStack(db, id)?.organisation,
    decide: (db, { params: { id: stack, model } }) => {
      if (!needStack(db, stack).models.includes(model)) throw notInstalled(model, stack);
      return { events: [{ type: 'stack.model_uninstalled', data: { stack, model } }] };
    },
    show: (db, { params: { id } }) => findStack(db, id) ?? { id },
  },
  'pool.install': {
    decide: (db, { params: { model } }) => {
      needModel(db, model);
      if (findPool(db).models.includes(model)) return { events: [] };
      return { events: [{ type: 'pool.model_installed', data: { model } }] };
    },
    show: (db) => findPool(db),
  },
  'pool.uninstall': {
    decide: (db, { params: { model } }) => {
      if (!findPool(db).models.includes(model)) throw notInstalled(model, 'the pool');
      return { events: [{ type: 'pool.model_uninstalled', data: { model } }] };
    },
    show: (db) => findPool(db),
  },
});
