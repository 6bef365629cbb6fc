/** Routes of staged changes, with the counts that gateways reported. Also parses the staging options of commands. */

import type { z } from 'zod';
import type { commandQuerySchema } from '../../schemas/admin/admin-row.ts';
import type { Change, ReleaseTexts } from '../../schemas/events/changes.ts';
import { parseWatch, ReleaseFault, releasePlan } from '../../schemas/events/release.ts';
import type { Staging } from '../commands/staging.ts';
import { CommandError } from '../core/command-error.ts';
import { computeFigures, reportingGateways } from '../gateways/change-figures.ts';
import { findChange, findOpenChange, listChanges } from '../state/changes.ts';
import type { AdminContext } from './context.ts';
import type { OperationHandlers } from './operations.ts';

type Context = Pick<AdminContext, 'snapshot' | 'board' | 'traffic'>;

type CommandQuery = z.output<typeof commandQuerySchema>;

/** Parses a command's staging options. `file` contains the release options of a fleet document. Throws `CommandError`. */
export function readStaging(
  { board }: Pick<AdminContext, 'board'>,
  query: CommandQuery,
  file: ReleaseTexts = {},
): Staging | undefined {
  const { stage, waves, hold, watch, advanceUnseen } = query;
  if (stage === 'true') return checkedStaging(board, query, file);
  if ((waves ?? hold ?? watch ?? advanceUnseen) === undefined) return undefined;
  throw new CommandError('InvalidCommand', 'waves, hold and watch need a staged change', {
    next: 'add --stage',
  });
}

function checkedStaging(board: AdminContext['board'], query: CommandQuery, file: ReleaseTexts): Staging {
  const halted = board.gateways().find(({ report }) => report.halted !== undefined);
  if (halted)
    throw new CommandError('Conflict', `the gateway ${halted.report.name} does not follow the log`, {
      next: 'stage it once all gateways follow the log: headgate gateway list',
    });
  try {
    const gateways = reportingGateways(board);
    const plan = releasePlan(releaseTexts(query, file), gateways);
    return { ...plan, advanceUnseen: query.advanceUnseen === 'true' };
  } catch (error) {
    throw toRefusal(error);
  }
}

function toRefusal(error: unknown): unknown {
  if (!(error instanceof ReleaseFault)) return error;
  return new CommandError('InvalidCommand', error.message, {
    next: 'use waves such as one,10%,50%,all or names of gateways, each larger than the one before',
  });
}

function releaseTexts({ waves, hold, watch }: CommandQuery, file: ReleaseTexts): ReleaseTexts {
  return {
    ...file,
    ...(waves !== undefined && { waves: waves.split(',') }),
    ...(hold !== undefined && { hold }),
    ...(watch !== undefined && { watch: { ...file.watch, ...parseWatch(watch) } }),
  };
}

/** Adds the counts that gateways have reported since the change's current wave began. */
export function withFigures(
  context: Pick<AdminContext, 'board' | 'traffic' | 'snapshot'>,
  change: Change,
): Change {
  if (change.state !== 'open') return change;
  const open = findOpenChange(context.snapshot.db);
  const nowMs = context.traffic.now();
  const sinceMs = open?.id === change.id ? open.wave_at : nowMs;
  const { inside, outside } = computeFigures(context, { ...change, sinceMs }, nowMs);
  const { least } = change.watch;
  const waits =
    change.impossible === undefined &&
    open?.advance_unseen === 0 &&
    nowMs > sinceMs + change.holdSeconds * 1000 &&
    inside.requests < least;
  const shown = { ...change, figures: { inside, outside } };
  if (!waits) return shown;
  const stuck = `waits for ${least} requests in its waves; ${inside.requests} have arrived`;
  return { ...shown, stuck, next: `${stuck}: headgate change advance ${change.id} does not wait` };
}

export function changeHandlers(context: Context): OperationHandlers<'change.list' | 'change.get'> {
  const { snapshot } = context;
  return {
    'change.list': () => ({
      items: listChanges(snapshot.db).map((change) => withFigures(context, change)),
      position: snapshot.seq,
    }),
    'change.get': ({ params: { id } }) => {
      const change = findChange(snapshot.db, id);
      if (change === undefined)
        throw new CommandError('NotFound', `there is no change ${id}`, { next: 'headgate change list' });
      return { ...withFigures(context, change), position: snapshot.seq };
    },
  };
}
