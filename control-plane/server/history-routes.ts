/** Routes of the past: one commit, two moments compared, commits over time, and the inverse of a commit. */
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { AdminResponse } from '../../schemas/admin.ts';
import { CommandError } from '../core/command-error.ts';
import { InverseOutdated, undoDefinition, undoParamsSchema } from '../history/undo-command.ts';
import { commandIdOf, runCommand } from './command-routes.ts';
import { type AdminContext, callerOf, commandQuerySchema, parseQuery } from './context.ts';

const moment = z.string().min(1).max(40);
const changesQuery = z.object({ from: moment, to: moment.optional() });
const changesMax = 10_000;
const timelineQuery = z.object({
  from: moment.optional(),
  to: moment.optional(),
  buckets: z.coerce.number().int().min(1).max(500).default(60),
});

/** Throws NotFound for a commit that does not exist yet. */
function positionOf({ snapshot }: AdminContext, request: FastifyRequest): number {
  const { position } = parseQuery(undoParamsSchema, request.params);
  if (position <= snapshot.seq) return position;
  throw new CommandError('NotFound', `there is no position ${position}; the log is at ${snapshot.seq}`);
}

async function changes(
  context: AdminContext,
  request: FastifyRequest,
): Promise<AdminResponse<'GET /changes'>> {
  const { from, to } = parseQuery(changesQuery, request.query);
  const caller = callerOf(request);
  const position = context.snapshot.seq;
  const begin = (await context.past.moment(from, caller)).seq;
  const end = to === undefined ? position : (await context.past.moment(to, caller)).seq;
  const items = await context.past.ask('changes', [Math.max(begin, end), begin, end, changesMax + 1], caller);
  const shown = items.slice(0, changesMax);
  return {
    from: begin,
    to: end,
    items: shown,
    ...(items.length > changesMax && { truncated: true }),
    position,
  };
}

async function timeline(
  context: AdminContext,
  request: FastifyRequest,
): Promise<AdminResponse<'GET /timeline'>> {
  const { from, to, buckets } = parseQuery(timelineQuery, request.query);
  const caller = callerOf(request);
  const { seq } = context.snapshot;
  const fromMs = await context.past.timeOf(from ?? '1', caller);
  const toMs = to === undefined ? Date.now() : await context.past.timeOf(to, caller);
  if (toMs < fromMs) throw new CommandError('InvalidCommand', 'to is before from');
  return {
    from: new Date(fromMs).toISOString(),
    to: new Date(toMs).toISOString(),
    buckets: await context.past.ask('timeline', [seq, fromMs, toMs, buckets], caller),
    position: seq,
  };
}

/** Found again, on a state that others have changed meanwhile. */
const undoAttemptsMax = 12;

/** Takes a commit back. A repeat is answered by its record: its inverse is not there to be found any more. */
async function undo(context: AdminContext, request: FastifyRequest): Promise<object> {
  const of = positionOf(context, request);
  const { snapshot, past } = context;
  for (let attempt = 1; attempt <= undoAttemptsMax; attempt++) {
    const { seq } = snapshot;
    const isRepeat = snapshot.journal.commandOf(commandIdOf(request)) !== undefined;
    const inverse = isRepeat ? [] : await past.ask('undo', [seq, of], callerOf(request));
    try {
      return await runCommand(context, undoDefinition(snapshot, seq, inverse), request);
    } catch (error) {
      if (!(error instanceof InverseOutdated)) throw error;
    }
  }
  throw new CommandError('Conflict', `others changed the state ${undoAttemptsMax} times meanwhile`, {
    next: 'repeat the command',
  });
}

export function registerHistoryRoutes(app: FastifyInstance, context: AdminContext): void {
  const config = { access: 'operator' } as const;
  const one = { params: undoParamsSchema };
  const validatorCompiler = () => (data: unknown) => ({ value: data });
  app.route({
    method: 'GET',
    url: '/events/:position',
    config,
    schema: { summary: 'One commit, and what it did to each row', ...one },
    validatorCompiler,
    handler: async (request) => context.past.ask('show', [positionOf(context, request)], callerOf(request)),
  });
  app.route({
    method: 'GET',
    url: '/events/:position/undo',
    config,
    schema: { summary: 'The command that takes a commit back', ...one },
    validatorCompiler,
    handler: async (request): Promise<AdminResponse<'GET /events/:position/undo'>> => {
      const of = positionOf(context, request);
      const position = context.snapshot.seq;
      const commands = await context.past.ask('undo', [position, of], callerOf(request));
      // An earlier CLI knows no list: of several commands it must not run one and say that all is done.
      const [only] = commands.length === 1 ? commands : [];
      return { of, ...only, commands, position };
    },
  });
  app.route({
    method: 'POST',
    url: '/events/:position/undo',
    config,
    schema: {
      summary: 'Take a commit back, in one commit',
      operationId: 'commit.undo',
      ...one,
      querystring: commandQuerySchema,
    },
    validatorCompiler,
    handler: (request) => undo(context, request),
  });
  app.route({
    method: 'GET',
    url: '/changes',
    config,
    schema: { summary: 'Rows that differ between two moments', querystring: changesQuery },
    validatorCompiler,
    handler: (request) => changes(context, request),
  });
  app.route({
    method: 'GET',
    url: '/timeline',
    config,
    schema: { summary: 'Commits over time, by kind', querystring: timelineQuery },
    validatorCompiler,
    handler: (request) => timeline(context, request),
  });
}
