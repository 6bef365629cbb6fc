/** Routes of the past: one commit, the changes between two moments, and the inverse of a commit. */
import type { FastifyInstance } from 'fastify';
import { adminOperations, type OperationAnswer } from '../../schemas/admin/admin.ts';
import { CommandError } from '../core/command-error.ts';
import { keepMore } from '../history/trim.ts';
import { checkUnchanged } from '../history/undo.ts';
import { shownCommand, undoDefinition } from '../history/undo-command.ts';
import { readCommandId, runCommand } from './command-routes.ts';
import { type AdminContext, createPastReader, type GatewayQuestions, parseQuery } from './context.ts';
import { type AskedOf, addRoute, type OperationHandlers } from './operations.ts';

type Context = Pick<
  AdminContext,
  | GatewayQuestions
  | 'snapshot'
  | 'writer'
  | 'past'
  | 'traffic'
  | 'usage'
  | 'counters'
  | 'gauges'
  | 'onCommits'
>;

const changesMax = 10_000;

/** Returns the position if there is a commit at it. Otherwise throws a `NotFound` error. */
function known({ snapshot }: Context, position: number): number {
  if (position <= snapshot.seq) return position;
  throw new CommandError('NotFound', `there is no position ${position}; the log is at ${snapshot.seq}`);
}

async function changes(
  context: Context,
  { query: { from, to }, request, reply }: AskedOf<'changes.get'>,
): Promise<OperationAnswer<'changes.get'>> {
  const reader = createPastReader(request, reply);
  const position = context.snapshot.seq;
  const begin = (await context.past.moment(from, reader)).seq;
  const end = to === undefined ? position : (await context.past.moment(to, reader)).seq;
  const items = await context.past.ask('changes', [Math.max(begin, end), begin, end, changesMax + 1], reader);
  const shown = items.slice(0, changesMax);
  return {
    from: begin,
    to: end,
    items: shown,
    ...(items.length > changesMax && { truncated: true }),
    position,
  };
}

/** Returns fields that say where the history begins, for responses that are incomplete because old states were removed. */
export function historyCut(begin: number | undefined) {
  return begin === undefined ? {} : { historyFrom: begin, historyNext: keepMore };
}

/** Adds the route that undoes a commit. A repeated request does not ask the history, which may be busy or trimmed by then. */
export function addUndo(app: FastifyInstance, context: Context): void {
  addRoute(app, 'commit.undo', async (request, reply) => {
    const of = known(context, parseQuery(adminOperations['commit.undo'].params, request.params).position);
    const isRepeat = context.snapshot.journal.commandOf(readCommandId(request)) !== undefined;
    const inverse = isRepeat
      ? { commands: [], subjects: [] }
      : await context.past.ask('inverse', [of], createPastReader(request, reply));
    return runCommand(context, undoDefinition(context.snapshot, inverse), request);
  });
}

type HistoryName = 'commit.get' | 'commit.inverse' | 'changes.get';

export function historyHandlers(context: Context): OperationHandlers<HistoryName> {
  return {
    'commit.get': async ({ params, request, reply }) =>
      context.past.ask('show', [known(context, params.position)], createPastReader(request, reply)),
    'commit.inverse': async ({ params, request, reply }) => {
      const of = known(context, params.position);
      const inverse = await context.past.ask('inverse', [of], createPastReader(request, reply));
      const { db, seq: position } = context.snapshot;
      checkUnchanged(inverse, db, of);
      const commands = inverse.commands.map(shownCommand);
      // Earlier CLI versions do not know `commands`. They must not run only one of several commands and report success.
      const [only] = commands.length === 1 ? commands : [];
      return { of, ...only, commands, position };
    },
    'changes.get': (asked) => changes(context, asked),
  };
}
