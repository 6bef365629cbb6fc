/**
 * Server-sent events for the pages: each position that was folded, for the operator with its events. Members get the position
 * alone, and read again what they may read.
 */
import type { ServerResponse } from 'node:http';
import type { FastifyInstance } from 'fastify';
import type { Commit } from '../../schemas/commit.ts';
import { readingRoles } from '../commands/authorise.ts';
import { CommandError } from '../core/command-error.ts';
import type { AdminContext } from '../server/context.ts';
import { eventsOf } from '../server/event-routes.ts';
import { sessionOf } from './session-guard.ts';
import type { ConsoleSession, Sessions } from './sessions.ts';

const streamsMax = 1000;
/** A browser that does not read is cut off, not buffered for. */
const bufferedBytesMax = 1024 * 1024;
/** Larger batches are sent as a position alone: the page reads them as a list. */
const eventsPerMessageMax = 200;
/** Shorter than what proxies allow a silent connection; the session is asked again each time. */
const pulseMs = 15_000;
/** How soon a page learns that the log is away, or back. */
const lookMs = 1000;

export function registerLiveStream(api: FastifyInstance, context: AdminContext, sessions: Sessions): void {
  let open = 0;
  api.get('/stream', { config: { access: readingRoles } }, (request, reply) => {
    if (open >= streamsMax) throw new CommandError('Busy', 'too many pages follow this replica');
    const session = sessionOf(request);
    open++;
    reply.hijack();
    // Hijacked: Fastify sends none of the headers that the hooks have set.
    for (const [name, value] of Object.entries(reply.getHeaders())) reply.raw.setHeader(name, value ?? '');
    follow(reply.raw, context, session, sessions, () => {
      open--;
    });
  });
}

function follow(
  response: ServerResponse,
  context: AdminContext,
  session: ConsoleSession,
  sessions: Sessions,
  onEnd: () => void,
): void {
  const isOperator = session.kind === 'operator';
  response.on('error', () => response.destroy());
  response.writeHead(200, {
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-store',
  });
  const send = (event: string, data: object): void => {
    response.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
    if (response.writableLength > bufferedBytesMax) response.destroy();
  };
  const { replicator } = context;
  let pulsed = { atMs: 0, logReachable: true };
  const pulse = (): void => {
    pulsed = { atMs: performance.now(), logReachable: replicator.reachable };
    if (!sessions.counts(session)) {
      send('ended', {});
      response.end();
    } else send('pulse', { position: context.snapshot.seq, logReachable: pulsed.logReachable });
  };
  const stop = context.onCommits((commits) => {
    if (commits.some(({ events }) => events.some(({ type }) => type === 'session.ended'))) pulse();
    if (!response.writableEnded) send('commits', messageOf(commits, isOperator));
  });
  const timer = setInterval(() => {
    if (replicator.reachable !== pulsed.logReachable || performance.now() - pulsed.atMs >= pulseMs) pulse();
  }, lookMs);
  response.write('retry: 1000\n\n');
  pulse();
  response.once('close', () => {
    clearInterval(timer);
    stop();
    onEnd();
  });
}

function messageOf(commits: readonly Commit[], isOperator: boolean): object {
  const position = commits.at(-1)?.seq ?? 0;
  if (!isOperator) return { position };
  const count = commits.reduce((sum, { events }) => sum + events.length, 0);
  if (count > eventsPerMessageMax) return { position };
  return { position, events: commits.flatMap((commit) => eventsOf(commit)) };
}
