/** Routes that read the current or a past state. Members see only what belongs to their organisation. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { adminOperations, type StateReadName } from '../../schemas/admin/admin.ts';
import type { OperationRow } from '../../schemas/admin/admin-row.ts';
import { wallClockMs } from '../../shared/runtime/clock.ts';
import { authorise } from '../commands/authorise.ts';
import { CommandError } from '../core/command-error.ts';
import { type ReadParams, readInWave, stateReads } from '../history/reads.ts';
import { ListPage } from '../state/list-page.ts';
import { type AdminContext, awaitPosition, createPastReader, parseQuery, requestActor } from './context.ts';
import { addRoute } from './operations.ts';

type Context = Pick<AdminContext, 'snapshot' | 'replicator' | 'past' | 'live'>;

const names = Object.keys(stateReads) as StateReadName[];

export function addReads(app: FastifyInstance, context: Context): void {
  for (const name of names) addRoute(app, name, (request, reply) => answer(context, name, request, reply));
}

async function answer(
  context: Context,
  name: StateReadName,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<object> {
  const row: OperationRow = adminOperations[name];
  const { at, min, wave, ...asked } = {
    wave: undefined,
    ...parseQuery(adminOperations[name].query, request.query),
  };
  const params = (row.params ? parseQuery(row.params, request.params) : {}) as ReadParams;
  await awaitPosition(context, min);
  // Checks the person's current role, so that former members cannot read past states either.
  const authorised = (owner: () => string | undefined): void =>
    authorise(context.snapshot.db, requestActor(request), row.access, owner);
  if (at === undefined) {
    const { organisationOf, read } = stateReads[name];
    const { snapshot } = context;
    const { db, seq } = snapshot;
    const query = { ...asked, nowMs: wallClockMs() };
    authorised(() => organisationOf?.(db, params, query));
    const found = read(db, params, query, (node) => context.live.with(node));
    if (found === undefined) throw notFound(row);
    if (found instanceof ListPage) return { ...found, position: seq };
    if (Array.isArray(found)) return { items: found, position: seq };
    if (wave !== 'true') return found;
    const added = snapshot.stateAt({ kind: 'present', view: 'wave' }, (state) =>
      readInWave(
        state,
        read(state.db, params, query, (node) => node),
      ),
    );
    return { ...found, ...added };
  }
  const reader = createPastReader(request, reply);
  const { seq, nowMs } = await context.past.moment(at, reader);
  const read = await context.past.ask(
    'read',
    [seq, name, params, { ...asked, nowMs }, wave === 'true'],
    reader,
  );
  authorised(() => read.organisation);
  if (read.found === undefined) throw notFound(row);
  reply.type('application/json; charset=utf-8').serializer((text: unknown) => String(text));
  return reply.send(read.isList ? `${read.found.slice(0, -1)},"position":${seq}}` : read.found);
}

function notFound({ summary }: OperationRow): CommandError {
  return new CommandError(
    'NotFound',
    `there is no ${summary.toLowerCase().replace(/^one /, '')} under this id`,
  );
}
