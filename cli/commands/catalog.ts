/**
 * `headgate tier` and `headgate model`: the catalog of models, and the limits of each plan. `set` changes the given
 * options and keeps the rest. The limits of visitors are the tier `anonymous`.
 */
import type { Command } from 'commander';
import type { AdminClient } from '../../admin-client/admin-client.ts';
import { AdminError } from '../../admin-client/admin-error.ts';
import type { Resource } from '../../admin-client/answers.ts';
import { affinitySchema } from '../../schemas/names.ts';
import { confirmDestructive } from '../terminal/confirm.ts';
import { usageError } from '../terminal/errors.ts';
import type { Io } from '../terminal/io.ts';
import { count, countIn, limit, limitIn, selection, time } from '../terminal/options.ts';
import { ageColumn, column, type View } from '../terminal/render.ts';
import { route } from '../terminal/route.ts';
import { someText } from '../terminal/text.ts';
import { noun } from '../terminal/verbs.ts';
import {
  type ListOptions,
  type PageOptions,
  pageQuery,
  printWriteResult,
  showList,
  showResource,
  withPages,
} from './answers.ts';

const tierView: View = {
  columns: [
    column('ID', 'id'),
    column('RANK', 'rank'),
    column('REQ/MIN', 'requestsPerMinute'),
    column('CONCURRENCY', 'concurrency'),
    column('CONTEXT', 'contextTokens'),
    column('TOKENS/MONTH', 'monthlyTokens'),
    { heading: 'MODELS', cell: ({ models }) => someText(models), isLong: true },
  ],
  name: (resource) => resource['id'] ?? anonymous,
};
const modelView: View = {
  columns: [
    column('ID', 'id'),
    column('FAMILY', 'family'),
    column('WEIGHT', 'weight'),
    ageColumn('ADDED', 'added'),
  ],
  name: (resource) => resource['id'],
};

const anonymous = 'anonymous';
const tierPath = (id: string): string => (id === anonymous ? '/anonymous' : route`/tiers/${id}`);

interface TierOptions {
  readonly rank?: number | 'none';
  readonly requestsPerMinute?: number | 'none';
  readonly concurrency?: number | 'none';
  readonly contextTokens?: number | 'none';
  readonly monthlyTokens?: number | 'none';
  readonly freeTurns?: number | 'none';
  readonly networkFactor?: number | 'none';
  readonly totalRequestsPerMinute?: number | 'none';
  readonly totalConcurrency?: number | 'none';
  readonly totalTokensPerDay?: number | 'none';
  readonly models?: '*' | readonly string[];
}
const tierMembers = ['requestsPerMinute', 'concurrency', 'contextTokens', 'models'] as const;
const tierOnlyMembers = ['rank', 'monthlyTokens'] as const;
const visitorOnlyMembers = ['freeTurns', 'networkFactor'] as const;
/** Limits of all visitors together, by their options. */
const totalMembers = {
  totalRequestsPerMinute: 'requestsPerMinute',
  totalConcurrency: 'concurrency',
  totalTokensPerDay: 'tokensPerDay',
} as const;

interface ModelOptions {
  readonly family?: string;
  readonly affinity?: string;
  readonly weight?: number;
  readonly added?: string;
}

export function registerCatalog(program: Command, io: Io): void {
  registerTiers(program, io);
  registerModels(program, io);
}

function registerTiers(program: Command, io: Io): void {
  const tier = noun(
    program,
    io,
    'tier',
    'plans: limits and included models',
    'deployed',
    'headgate tier list',
  );
  tier
    .verb('list', 'list tiers, lowest first', 'headgate tier list')
    .option('--limit <n>', 'maximum number of items', count)
    .action<ListOptions>((session, { limit: most }) =>
      showList(session, '/tiers', tierView, { limit: most }),
    );
  tier
    .verb('get <id>', 'show one tier', 'headgate tier get Platinum', 'headgate tier get anonymous')
    .action((session, _options, id) => showResource(session, tierPath(id), tierView));
  tier
    .verb(
      'set <id>',
      'create or change a tier; `none` removes a limit',
      'headgate tier set Pro --requests-per-minute 600 --models echo-small,echo-large',
      'headgate tier set anonymous --free-turns 10',
    )
    .option('--rank <n>', 'order among the tiers, lowest first', limitIn(0, 1000))
    .option('--requests-per-minute <n>', 'requests per minute', limit)
    .option('--concurrency <n>', 'concurrent requests', limit)
    .option('--context-tokens <n>', 'tokens per request', limit)
    .option('--monthly-tokens <n>', 'tokens per billing period', limit)
    .option('--free-turns <n>', 'turns per visitor; only for the tier anonymous', limit)
    .option(
      '--network-factor <n>',
      'a network has so many times the free turns each day; anonymous only',
      limitIn(1, 1_000_000),
    )
    .option('--total-requests-per-minute <n>', 'of all visitors together; anonymous only', limit)
    .option('--total-concurrency <n>', 'of all visitors together; anonymous only', limit)
    .option('--total-tokens-per-day <n>', 'of all visitors together; anonymous only', limit)
    .option('--models <ids>', 'included models, separated by commas, or *', selection)
    .action<TierOptions>(async (session, options, id) => {
      const api = await session.api();
      const path = tierPath(id);
      const members = [...tierMembers, ...(id === anonymous ? visitorOnlyMembers : tierOnlyMembers)];
      const before = await present(api, path);
      const body = merged(before, members, options as unknown as Resource);
      if (id === anonymous) setTotal(body, before, options as unknown as Resource);
      if (body['models'] === undefined)
        throw usageError('a new tier needs --models', 'headgate tier set --help');
      await printWriteResult(session, await api.write('PUT', path, body), 'tier', id, 'set');
    });
  tier
    .verb('delete <id>', 'delete a tier', 'headgate tier delete Starter --yes')
    .action(async (session, _options, id) => {
      await confirmDestructive(session, id, `delete the tier ${id}`);
      const resource = await (await session.api()).write('DELETE', route`/tiers/${id}`);
      await printWriteResult(session, resource, 'tier', id, 'deleted');
    });
}

function registerModels(program: Command, io: Io): void {
  const model = noun(program, io, 'model', 'the catalog of models', 'deployed', 'headgate model list');
  withPages(model.verb('list', 'list the catalog', 'headgate model list')).action<PageOptions>(
    (session, page) => showList(session, '/models', modelView, pageQuery(page)),
  );
  model
    .verb('get <id>', 'show one model', 'headgate model get echo-small')
    .action((session, _options, id) => showResource(session, route`/models/${id}`, modelView));
  model
    .verb('set <id>', 'add or change a model', 'headgate model set echo-large --family echo --weight 4')
    .option('--family <text>', 'model family')
    .option('--weight <n>', 'number of requests that one request counts as', countIn(1, 1000))
    .choice('--affinity <how>', 'prefix: prompts that begin alike go to one node', affinitySchema.options)
    .option('--added <time>', 'time it was added, RFC 3339; now by default', time)
    .action<ModelOptions>(async (session, options, id) => {
      const api = await session.api();
      const path = route`/models/${id}`;
      const members = ['family', 'weight', 'affinity', 'added'];
      const body = merged(await present(api, path), members, options as unknown as Resource);
      if (body['family'] === undefined)
        throw usageError('a new model needs --family', `headgate model set ${id} --family NAME`);
      await printWriteResult(session, await api.write('PUT', path, body), 'model', id, 'set');
    });
  model
    .verb('delete <id>', 'delete a model from the catalog', 'headgate model delete echo-large --yes')
    .action(async (session, _options, id) => {
      await confirmDestructive(session, id, `delete the model ${id}`);
      const resource = await (await session.api()).write('DELETE', route`/models/${id}`);
      await printWriteResult(session, resource, 'model', id, 'deleted');
    });
}

/** The current resource, or an empty object if it does not exist. */
async function present(api: AdminClient, path: string): Promise<Resource> {
  try {
    return await api.get(path);
  } catch (error) {
    if (error instanceof AdminError && error.status === 404) return {};
    throw error;
  }
}

function setTotal(body: Resource, before: Resource, options: Resource): void {
  const given = Object.entries(totalMembers).map(([option, member]) => [member, options[option]]);
  const present = (before['total'] ?? {}) as Resource;
  const total = merged(present, Object.values(totalMembers), Object.fromEntries(given));
  if (Object.keys(total).length > 0) Object.assign(body, { total });
}

/** The current members, overridden by the given options; `none` removes a member. */
function merged(before: Resource, members: readonly string[], options: Resource): Resource {
  const body = members.map((member) => [member, options[member] ?? before[member]] as const);
  return Object.fromEntries(
    body.filter(([, value]) => value !== 'none' && value !== undefined && value !== null),
  );
}
