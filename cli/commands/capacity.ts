/** `headgate stack` and `headgate pool`: what is installed where. */
import type { Command } from 'commander';
import { route } from '../terminal/client.ts';
import { confirmDestructive } from '../terminal/confirm.ts';
import type { Io } from '../terminal/io.ts';
import { count } from '../terminal/options.ts';
import { column, type View } from '../terminal/render.ts';
import { noun } from '../terminal/verbs.ts';
import { type ListOptions, printWriteResult, showList, showResource } from './answers.ts';

const stackView: View = {
  columns: [
    column('ID', 'id'),
    column('ORGANISATION', 'organisation'),
    column('SURFACE', 'surface'),
    column('MODELS', 'models'),
    column('NODES', 'nodes'),
  ],
  name: (resource) => resource['id'],
};
const poolView: View = {
  columns: [column('MODELS', 'models'), column('NODES', 'nodes')],
  name: () => 'pool',
};

interface CreateOptions {
  readonly org: string;
  readonly id?: string;
  readonly surface?: string;
}

/** Installing and uninstalling, with the method that asks for it and the word for its outcome. */
const installs = [
  { name: 'install', method: 'PUT', done: 'installed' },
  { name: 'uninstall', method: 'DELETE', done: 'uninstalled' },
] as const;

export function registerCapacity(program: Command, io: Io): void {
  registerStacks(program, io);
  registerPool(program, io);
}

function registerStacks(program: Command, io: Io): void {
  const stack = noun(program, io, 'stack', 'dedicated stacks', 'deployed', 'headgate stack list');
  stack
    .verb('create', 'create a stack', 'headgate stack create --org acme --surface anthropic')
    .required('--org <id>', 'the organisation that owns it')
    .option('--id <stack>', 'stk-<word>-<word>-<suffix>; made up where left out')
    .option('--surface <surface>', 'openai (where left out) or anthropic')
    .action<CreateOptions>(async (session, { org, id, surface }) => {
      const body = { organisation: org, ...(id && { id }), ...(surface && { surface }) };
      const resource = await (await session.api()).write('POST', '/stacks', body);
      await printWriteResult(session, resource, 'stack', String(resource['id']), 'created');
    });
  stack
    .verb('list', 'list stacks', 'headgate stack list --org acme')
    .option('--org <id>', 'of this organisation only')
    .option('--limit <n>', 'at most so many', count)
    .action<ListOptions & { readonly org?: string }>((session, { org, limit }) =>
      showList(session, '/stacks', stackView, { organisation: org, limit }),
    );
  stack
    .verb('get <stack>', 'show one stack', 'headgate stack get stk-amber-otter-9k2f')
    .action((session, _options, id) => showResource(session, route`/stacks/${id}`, stackView));
  stack
    .verb('delete <stack>', 'delete a stack', 'headgate stack delete stk-amber-otter-9k2f --yes')
    .action(async (session, _options, id) => {
      await confirmDestructive(session, id, `delete the stack ${id}`);
      const resource = await (await session.api()).write('DELETE', route`/stacks/${id}`);
      await printWriteResult(session, resource, 'stack', id, 'deleted');
    });
  for (const { name, method, done } of installs) {
    const example = `headgate stack ${name} stk-amber-otter-9k2f echo-large`;
    stack
      .verb(`${name} <stack> <model>`, `${name} a model`, example)
      .action(async (session, _options, id, model) => {
        const resource = await (await session.api()).write(method, route`/stacks/${id}/models/${model}`);
        await printWriteResult(session, resource, 'stack', id, `changed: ${model} ${done}`);
      });
  }
  stack
    .verb(
      'surface <stack> <surface>',
      'switch the API that the stack speaks: openai or anthropic',
      'headgate stack surface stk-amber-otter-9k2f anthropic',
    )
    .action(async (session, _options, id, surface) => {
      const resource = await (await session.api()).write('PUT', route`/stacks/${id}/surface`, { surface });
      await printWriteResult(session, resource, 'stack', id, `switched to ${surface}`);
    });
}

function registerPool(program: Command, io: Io): void {
  const pool = noun(program, io, 'pool', 'the shared pool', 'deployed', 'headgate pool get');
  pool
    .verb('get', 'show the pool', 'headgate pool get')
    .action((session) => showResource(session, '/pool', poolView));
  for (const { name, method, done } of installs) {
    pool
      .verb(`${name} <model>`, `${name} a model`, `headgate pool ${name} echo-small`)
      .action(async (session, _options, model) => {
        const resource = await (await session.api()).write(method, route`/pool/models/${model}`);
        await printWriteResult(session, resource, 'pool', model, done);
      });
  }
}
