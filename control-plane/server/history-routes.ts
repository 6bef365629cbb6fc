/** Routes of the past: one commit, two moments compared, commits over time, and the inverse of a commit. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { AdminResponse } from '../../schemas/admin.ts';
import { CommandError } from '../core/command-error.ts';
import { namedMoment } from '../history/past.ts';
import { keepMore } from '../history/trim.ts';
import { checkUnchanged } from '../history/undo.ts';
import { undoDefinition, undoParamsSchema } from '../history/undo-command.ts';
import { commandIdOf, runCommand } from './command-routes.ts';
import { type AdminContext, commandQuerySchema, parseQuery, pastReaderOf } from './context.ts';

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
  reply: FastifyReply,
): Promise<AdminResponse<'GET /changes'>> {
  const { from, to } = parseQuery(changesQuery, request.query);
  const reader = pastReaderOf(request, reply);
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

/** For answers that show a part of what was asked for. */
export function historyCut(begin: number | undefined) {
  return begin === undefined ? {} : { historyFrom: begin, historyNext: keepMore };
}

async function timeline(
  context: AdminContext,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<AdminResponse<'GET /timeline'>> {
  const { from, to, buckets } = parseQuery(timelineQuery, request.query);
  const reader = pastReaderOf(request, reply);
  const { seq } = context.snapshot;
  const toMs = to === undefined ? Date.now() : await context.past.timeOf(to, reader);
  const asked = { from: namedMoment(from ?? '1'), toMs, buckets };
  const found = await context.past.ask('timeline', [seq, asked], reader);
  return {
    from: new Date(found.fromMs).toISOString(),
    to: new Date(toMs).toISOString(),
    buckets: found.buckets,
    ...historyCut(found.begin),
    position: seq,
  };
}

/** Takes a commit back. A repeat does not ask the history, which may be busy or cut by then. */
async function undo(context: AdminContext, request: FastifyRequest, reply: FastifyReply): Promise<object> {
  const of = positionOf(context, request);
  const isRepeat = context.snapshot.journal.commandOf(commandIdOf(request)) !== undefined;
  const inverse = isRepeat
    ? { commands: [], subjects: [] }
    : await context.past.ask('inverse', [of], pastReaderOf(request, reply));
  return runCommand(context, undoDefinition(context.snapshot, inverse), request);
}

export function registerHistoryRoutes(app: FastifyInstance, context: AdminContext): void {
  const config = { access: 'operator', opens: 'question' } as const;
  const one = { params: undoParamsSchema };
  const validatorCompiler = () => (data: unknown) => ({ value: data });
  app.route({
    method: 'GET',
    url: '/events/:position',
    config,
    schema: { summary: 'One commit, and what it did to each row', ...one },
    validatorCompiler,
    handler: async (request, reply) =>
      context.past.ask('show', [positionOf(context, request)], pastReaderOf(request, reply)),
  });
  app.route({
    method: 'GET',
    url: '/events/:position/undo',
    config,
    schema: { summary: 'The command that takes a commit back', ...one },
    validatorCompiler,
    handler: async (request, reply): Promise<AdminResponse<'GET /events/:position/undo'>> => {
      const of = positionOf(context, request);
      const inverse = await context.past.ask('inverse', [of], pastReaderOf(request, reply));
      const { db, seq: position } = context.snapshot;
      checkUnchanged(inverse, db, of);
      const commands = [...inverse.commands];
      // An earlier CLI knows no list: of several commands it must not run one and say that all is done.
      const [only] = commands.length === 1 ? commands : [];
      return { of, ...only, commands, position };
    },
  });
  app.route({
    method: 'POST',
    url: '/events/:position/undo',
    config: { ...config, body: 'tiny' },
    schema: {
      summary: 'Take a commit back, in one commit',
      operationId: 'commit.undo',
      ...one,
      querystring: commandQuerySchema,
    },
    validatorCompiler,
    handler: (request, reply) => undo(context, request, reply),
  });
  app.route({
    method: 'GET',
    url: '/changes',
    config,
    schema: { summary: 'Rows that differ between two moments', querystring: changesQuery },
    validatorCompiler,
    handler: (request, reply) => changes(context, request, reply),
  });
  app.route({
    method: 'GET',
    url: '/timeline',
    config,
    schema: { summary: 'Commits over time, by kind', querystring: timelineQuery },
    validatorCompiler,
    handler: (request, reply) => timeline(context, request, reply),
  });
}
