/** Routes of events: a list, a live tail over WebSocket, and the raw log for export and replay. */
import { Readable } from 'node:stream';
import type { WebSocket } from '@fastify/websocket';
import type { FastifyInstance } from 'fastify';
import type { OperationAnswer, OperationQuery } from '../../schemas/admin/admin.ts';
import { eventQuerySchema, type ListedEvent } from '../../schemas/admin/admin-history.ts';
import type { Commit } from '../../schemas/events/commit.ts';
import { CommandError } from '../core/command-error.ts';
import { asFollowError } from '../core/follow-error.ts';
import type { PastReader } from '../history/past.ts';
import { type AcceptedRecord, CommitReader, ReadMarks } from '../state/commits.ts';
import { type AdminContext, createPastReader, parseQuery } from './context.ts';
import { historyCut } from './history-routes.ts';
import { type OperationHandlers, routeOptions } from './operations.ts';

type Context = Pick<AdminContext, 'snapshot' | 'replicator' | 'log' | 'past' | 'drain' | 'logger'>;

type EventQuery = OperationQuery<'event.list'>;

/** Maximum number of events in one response. If there are more, its `nextFrom` is the position at which to continue. */
const eventsPerAnswerMax = 10_000;
/** Maximum number of bytes buffered for a tail whose client does not read. Above this, the tail is closed. */
const bufferedBytesMax = 4 * 1024 * 1024;
/** Close code for "the server cannot continue" (RFC 6455, 1011). */
const faultCode = 1011;
/** Maximum length of the reason in a close frame (RFC 6455). */
const closeReasonBytesMax = 123;

export function listEvents(commit: Commit, type?: string): ListedEvent[] {
  const { seq, at, by, why, via, id } = commit;
  return commit.events
    .map((event, index) => ({
      position: seq,
      index,
      type: event.type,
      v: event.v,
      data: event.data,
      at,
      by,
      ...(why !== undefined && { why }),
      ...(via !== undefined && { via }),
      command: id,
    }))
    .filter((event) => type === undefined || event.type === type);
}

async function list(
  context: Context,
  query: EventQuery,
  marks: ReadMarks,
): Promise<OperationAnswer<'event.list'>> {
  const { snapshot, log } = context;
  const position = snapshot.seq;
  const to = Math.min(query.to ?? position, position);
  const max = Math.min(query.limit ?? eventsPerAnswerMax, eventsPerAnswerMax);
  const items: ListedEvent[] = [];
  let nextFrom: number | undefined;
  const reader = new CommitReader(log, snapshot.log, { marks, from: query.from });
  for await (const batch of reader.upTo(to)) {
    nextFrom = collect(batch, query, max, items);
    if (nextFrom !== undefined) break;
    await new Promise((resolve) => setImmediate(resolve));
  }
  if (query.limit !== undefined) return { items: items.slice(0, query.limit), position };
  return { items, position, ...(nextFrom !== undefined && { nextFrom }) };
}

const filters = ['organisation', 'key', 'stack', 'node', 'actor', 'text'] as const;

/** Searches events in the history, starting with the newest or filtered by subject. */
async function search(
  context: Context,
  query: EventQuery,
  reader: PastReader,
): Promise<OperationAnswer<'event.list'>> {
  const { from, order, type, organisation, key, stack, node, actor, text } = query;
  const position = context.snapshot.seq;
  const { items, next, begin } = await context.past.ask(
    'events',
    [
      position,
      {
        from,
        to: Math.min(query.to ?? position, position),
        order,
        limit: Math.min(query.limit ?? eventsPerAnswerMax, eventsPerAnswerMax),
        isExact: query.limit !== undefined && order === 'asc',
        subjects: { type, organisation, key, stack, node, actor },
        text,
      },
    ],
    reader,
  );
  if (next === undefined) return { items, position, ...historyCut(begin) };
  return { items, position, ...(order === 'asc' ? { nextFrom: next } : { nextTo: next }) };
}

/** Adds whole commits until there are enough events. Returns the position at which to continue, or undefined if all fit. */
function collect(
  batch: readonly AcceptedRecord[],
  query: EventQuery,
  max: number,
  items: ListedEvent[],
): number | undefined {
  for (const { commit } of batch) {
    if (items.length >= max) return commit.seq;
    if (commit.seq >= query.from) items.push(...listEvents(commit, query.type));
  }
  return undefined;
}

/**
 * Sends the commits from `query.from` on, then each new commit once it is folded. Rejects if no further commit can arrive.
 */
async function stream(context: Context, query: EventQuery, socket: WebSocket): Promise<void> {
  let open = true;
  const onEnd = (): void => {
    open = false;
  };
  socket.on('close', onEnd).on('error', onEnd);
  const reader = new CommitReader(context.log, context.snapshot.log);
  while (open) {
    for await (const batch of reader.upTo(context.snapshot.seq)) {
      const wanted = batch.filter(({ commit }) => commit.seq >= query.from);
      for (const event of wanted.flatMap(({ commit }) => listEvents(commit, query.type)))
        socket.send(JSON.stringify(event));
      if (!open) return;
      if (socket.bufferedAmount > bufferedBytesMax) {
        socket.close(1013, 'too slow');
        return;
      }
    }
    // Wakes up at the next commit. The timeout limits how long a closed socket is kept.
    await context.replicator.reached(reader.seq + 1, 1000);
  }
}

/** Shortens a reason to the length that a close frame allows. */
function closeReason(text: string): string {
  const reason = Buffer.from(text).subarray(0, closeReasonBytesMax).toString('utf8');
  // Removes the last character if it was cut in two.
  return reason.replace(/\uFFFD+$/, '');
}

function endTail(context: Context, socket: WebSocket, error: unknown): void {
  const known = asFollowError(error);
  if (known === undefined) context.logger.error({ err: error }, 'event tail failed');
  else context.logger.warn({ reason: known.message }, 'event tail ended');
  socket.close(faultCode, closeReason(known?.message ?? 'internal error; see the log of the control plane'));
}

async function* exportLines(context: Context, from: number): AsyncIterable<string> {
  const { log, snapshot } = context;
  for await (const batch of new CommitReader(log, snapshot.log).upTo(snapshot.seq)) {
    for (const { commit, record } of batch) {
      if (commit.seq < from) continue;
      const line = { offset: record.offset, value: record.value.toString('base64') };
      const signature = record.signature?.toString('base64');
      yield `${JSON.stringify(signature === undefined ? line : { ...line, signature })}\n`;
    }
  }
}

/** Returns the position of the first commit at or after a moment, or 1 if none is given. */
async function findFirstSince({ past, snapshot }: Context, since: string | undefined, reader: PastReader) {
  if (since === undefined) return 1;
  const sinceMs = await past.timeOf(since, reader);
  return (await past.ask('positionAt', [snapshot.seq, sinceMs - 1], reader)) + 1;
}

export function eventHandlers(context: Context): OperationHandlers<'event.list' | 'log.export'> {
  const marks = new ReadMarks();
  return {
    'event.list': async ({ query, request, reply }) => {
      const reader = createPastReader(request, reply);
      const end = query.at === undefined ? undefined : (await context.past.moment(query.at, reader)).seq;
      const from = Math.max(query.from, await findFirstSince(context, query.since, reader));
      const bounded = { ...query, from, ...(end !== undefined && { to: Math.min(end, query.to ?? end) }) };
      const isSearch = query.order === 'desc' || filters.some((filter) => query[filter] !== undefined);
      return isSearch ? search(context, bounded, reader) : list(context, bounded, marks);
    },
    'log.export': ({ query: { from }, reply }) =>
      reply.type('application/x-ndjson').send(Readable.from(exportLines(context, from))),
  };
}

/** Registers the live tail for programs. It needs the WebSocket plugin. */
export function registerEventStream(app: FastifyInstance, context: Context): void {
  const { url, config = {} } = routeOptions('event.tail');
  app.get(
    url,
    {
      websocket: true,
      config,
      preValidation: (request, _reply, done) => {
        // Refuses browsers, because a page of another site must not read the log with a user's cookies or network position.
        done(
          request.headers.origin === undefined
            ? undefined
            : new CommandError('Forbidden', 'Origin headers are not accepted'),
        );
      },
    },
    (socket, request) => {
      context.drain.track(socket);
      endWhenSilent(socket);
      stream(context, parseQuery(eventQuerySchema, request.query), socket).catch((error: unknown) =>
        endTail(context, socket, error),
      );
    },
  );
}

const pingEveryMsDefault = 15_000;
/** Maximum number of consecutive unanswered pings. Time is not measured, because this process may have been suspended. */
const unansweredMax = 3;

/** Terminates a WebSocket if the other side does not answer pings. */
export function endWhenSilent(socket: WebSocket, pingEveryMs = pingEveryMsDefault): void {
  let unanswered = 0;
  const onFrame = (): void => {
    unanswered = 0;
  };
  socket.on('pong', onFrame).on('ping', onFrame);
  const timer = setInterval(() => {
    if (unanswered++ < unansweredMax) socket.ping();
    else socket.terminate();
  }, pingEveryMs);
  socket.on('close', () => clearInterval(timer));
}
