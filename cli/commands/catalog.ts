/** Commands `tier` and `model` for the catalog. `set` changes only given settings. The tier `anonymous` is for visitors. */

import type { Anonymous, Model, Tier } from '../../schemas/admin/admin.ts';
import type { OperationName } from '../../schemas/admin/admin-routes.ts';
import { affinities } from '../../schemas/choices.ts';
import type { AdminClient } from '../admin-client/admin-client.ts';
import { AdminError } from '../admin-client/admin-error.ts';
import type { Resource } from '../admin-client/answers.ts';
import { usageError } from '../terminal/errors.ts';
import { countParser, limitParser, parseLimit, parseSelection, parseTime } from '../terminal/options.ts';
import { ageColumn, column, type View } from '../terminal/render.ts';
import type { Session } from '../terminal/session.ts';
import { formatSome } from '../terminal/text.ts';
import type { Noun } from '../terminal/verbs.ts';
import { printWriteResult } from './answers.ts';
import { type NounRow, pagedListVerb, showVerb, waveField, writeVerb } from './operation-verbs.ts';
import { withStage } from './stage-options.ts';

const anonymous = 'anonymous';
const tierView: View<Partial<Tier> & Omit<Tier, 'id' | 'rank'>> = {
  columns: [
    column('ID', 'id'),
    column('RANK', 'rank'),
    column('REQ/MIN', 'requestsPerMinute'),
    column('CONCURRENCY', 'concurrency'),
    column('CONTEXT', 'contextTokens'),
    column('TOKENS/MONTH', 'monthlyTokens'),
    { heading: 'MODELS', cell: ({ models }) => formatSome(models), isLong: true },
  ],
  name: ({ id = anonymous }) => id,
};
const modelView: View<Model> = {
  columns: [
    column('ID', 'id'),
    column('FAMILY', 'family'),
    column('WEIGHT', 'weight'),
    ageColumn('ADDED', 'added'),
  ],
  name: ({ id }) => id,
};

type Limit = number | 'none';
interface TierOptions {
  readonly rank?: Limit;
  readonly requestsPerMinute?: Limit;
  readonly concurrency?: Limit;
  readonly contextTokens?: Limit;
  readonly monthlyTokens?: Limit;
  readonly freeTurns?: Limit;
  readonly networkFactor?: Limit;
  readonly totalRequestsPerMinute?: Limit;
  readonly totalConcurrency?: Limit;
  readonly totalTokensPerDay?: Limit;
  readonly models?: '*' | string[];
}
interface ModelOptions {
  readonly family?: string;
  readonly affinity?: Model['affinity'];
  readonly weight?: number;
  readonly added?: string;
}

export const tiers: NounRow = {
  noun: ['tier', 'tiers: limits and included models', 'deployed', 'headgate tier list'],
  verbs: [
    pagedListVerb('tier.list', {
      verb: ['list', 'list tiers, lowest first', 'headgate tier list'],
      view: tierView,
    }),
    (tier) =>
      tier
        .verb('get <id>', 'show one tier', 'headgate tier get Platinum', 'headgate tier get anonymous')
        .option(waveField.flags, 'also show the row that applies at gateways in a wave of the open change')
        .action<{ readonly wave?: true }>(async (session, { wave }, id) =>
          session.out.resource(await readTier(await session.api(), id, wave && 'true'), tierView),
        ),
    setTier,
    writeVerb('tier.delete', {
      verb: [
        'delete <id>',
        'delete a tier; deleting the tier anonymous closes the service to visitors',
        'headgate tier delete Starter --yes',
      ],
      stages: true,
      confirm: ({ id }) => `delete the tier ${id}`,
      done: 'deleted',
    }),
  ],
};

export const models: NounRow = {
  noun: ['model', 'the catalog of models', 'deployed', 'headgate model list'],
  verbs: [
    pagedListVerb('model.list', {
      verb: ['list', 'list the models of the catalog', 'headgate model list'],
      view: modelView,
    }),
    showVerb('model.get', {
      verb: ['get <id>', 'show one model', 'headgate model get echo-small'],
      options: { wave: waveField },
      view: modelView,
    }),
    (model) =>
      withStage(
        model.verb(
          'set <id>',
          'add or change a model',
          'headgate model set echo-large --family echo --weight 4',
        ),
      )
        .option('--family <text>', 'model family')
        .option(
          '--weight <n>',
          'number of requests in flight that one request counts as',
          countParser(1, 1000),
        )
        .choice('--affinity <how>', 'prefix sends prompts that begin alike to the same node', affinities)
        .option('--added <time>', 'time at which the model was added, RFC 3339; now by default', parseTime)
        .action(modelSet),
    writeVerb('model.delete', {
      verb: ['delete <id>', 'delete a model from the catalog', 'headgate model delete echo-large --yes'],
      stages: true,
      confirm: ({ id }) => `delete the model ${id}`,
      done: 'deleted',
    }),
  ],
};

function setTier(tier: Noun): void {
  withStage(
    tier.verb(
      'set <id>',
      'create or change a tier; set a limit to none to remove it',
      'headgate tier set Pro --requests-per-minute 600 --models echo-small,echo-large',
      'headgate tier set anonymous --free-turns 10',
      'headgate tier set Pro --models echo-small --stage --waves one,10%,all --hold 5m',
    ),
  )
    .option('--rank <n>', 'place in the order of tiers; the lowest rank comes first', limitParser(0, 1000))
    .option('--requests-per-minute <n>', 'maximum requests per minute', parseLimit)
    .option('--concurrency <n>', 'maximum concurrent requests', parseLimit)
    .option('--context-tokens <n>', 'maximum tokens per request', parseLimit)
    .option('--monthly-tokens <n>', 'allowance: pool tokens per billing period', parseLimit)
    .option('--free-turns <n>', 'free turns per visitor and month; tier anonymous only', parseLimit)
    .option(
      '--network-factor <n>',
      'free turns per network and day, as a multiple of --free-turns; tier anonymous only',
      limitParser(1, 1_000_000),
    )
    .option(
      '--total-requests-per-minute <n>',
      'maximum requests per minute of all visitors together; tier anonymous only',
      parseLimit,
    )
    .option(
      '--total-concurrency <n>',
      'maximum concurrent requests of all visitors together; tier anonymous only',
      parseLimit,
    )
    .option(
      '--total-tokens-per-day <n>',
      'maximum tokens per UTC day of all visitors together; tier anonymous only',
      parseLimit,
    )
    .option('--models <ids>', 'included models, separated by commas, or * for all', parseSelection)
    .action<TierOptions>(async (session, options, id) => {
      if (options.freeTurns === 'none')
        throw usageError(
          'free turns cannot be unlimited',
          'headgate tier set anonymous --free-turns 10; headgate tier delete anonymous closes the service to visitors',
        );
      const api = await session.api();
      const answer = await replace(
        session,
        id === anonymous ? 'anonymous.set' : 'tier.set',
        () => readTier(api, id),
        (before) => mergedTier(id, options, before),
      );
      await printWriteResult(session, answer, 'tier', id, 'set');
    });
}

function mergedTier(id: string, options: TierOptions, before: Partial<Tier & Anonymous> | undefined): object {
  const models = options.models ?? before?.models;
  if (models === undefined) throw usageError('a new tier needs --models', 'headgate tier set --help');
  const ofAll = {
    requestsPerMinute: mergeLimit(options.requestsPerMinute, before?.requestsPerMinute),
    concurrency: mergeLimit(options.concurrency, before?.concurrency),
    contextTokens: mergeLimit(options.contextTokens, before?.contextTokens),
    models,
  };
  if (id === anonymous) return { ...ofAll, ...visitorLimits(options, before) };
  return { id, ...ofAll, ...planLimits(options, before) };
}

function planLimits({ rank, monthlyTokens }: TierOptions, before: Partial<Tier> = {}): object {
  return {
    rank: mergeLimit(rank, before.rank),
    monthlyTokens: mergeLimit(monthlyTokens, before.monthlyTokens),
  };
}

function visitorLimits(options: TierOptions, before: Partial<Anonymous> = {}): object {
  const { freeTurns, networkFactor, total: all } = before;
  const total = {
    requestsPerMinute: mergeLimit(options.totalRequestsPerMinute, all?.requestsPerMinute),
    concurrency: mergeLimit(options.totalConcurrency, all?.concurrency),
    tokensPerDay: mergeLimit(options.totalTokensPerDay, all?.tokensPerDay),
  };
  return {
    freeTurns: mergeLimit(options.freeTurns, freeTurns),
    networkFactor: mergeLimit(options.networkFactor, networkFactor),
    ...(Object.values(total).some((one) => one !== undefined) && { total }),
  };
}

async function modelSet(session: Session, options: ModelOptions, id: string): Promise<void> {
  const api = await session.api();
  const answer = await replace(
    session,
    'model.set',
    () => api.run('model.get', { id }),
    (before) => {
      const { family = before?.family, weight = before?.weight } = options;
      if (family === undefined)
        throw usageError('a new model needs --family', `headgate model set ${id} --family NAME`);
      const { affinity = before?.affinity, added = before?.added } = options;
      return { id, family, weight, affinity, added };
    },
  );
  await printWriteResult(session, answer, 'model', id, 'set');
}

function readTier(
  api: AdminClient,
  id: string,
  wave?: 'true',
): Promise<Partial<Tier & Anonymous> & Pick<Tier, 'models'>> {
  return id === anonymous ? api.run('anonymous.get', { wave }) : api.run('tier.get', { id, wave });
}

/** Maximum number of attempts to write. One is often not enough, because nodes that go up or down also add to the log. */
const attemptsMax = 10;

/** Replaces a resource with the result of `merge`. If the log grows meanwhile, merges again, so that no change is lost. */
async function replace<Found>(
  session: Session,
  name: OperationName,
  read: () => Promise<Found>,
  merge: (before: Found | undefined) => object,
): Promise<Resource> {
  const api = await session.api();
  for (let attempt = 1; ; attempt++) {
    const { position } = await api.run('status.get');
    const input = merge(await readOptional(read()));
    try {
      return await api.send(name, input, position);
    } catch (error) {
      const isMoved = error instanceof AdminError && error.type === 'PositionMoved';
      if (!isMoved || attempt === attemptsMax || session.globals.ifAt !== undefined) throw error;
    }
  }
}

/** Returns the current resource, or undefined if it does not exist. */
async function readOptional<Found>(found: Promise<Found>): Promise<Found | undefined> {
  try {
    return await found;
  } catch (error) {
    if (error instanceof AdminError && error.status === 404) return undefined;
    throw error;
  }
}

/** Returns the given limit, or the current one if none is given. `none` removes the limit. */
function mergeLimit(given: Limit | undefined, before: number | undefined): number | undefined {
  return given === 'none' ? undefined : (given ?? before);
}
