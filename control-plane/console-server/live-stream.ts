/** Server-sent events for pages: a stream of folded positions, which also has events for operators, and one of requests. */
import type { ServerResponse } from 'node:http';
import type { FastifyInstance } from 'fastify';
import { readingRoles } from '../../schemas/admin/admin-row.ts';
import { requestTailQuerySchema } from '../../schemas/admin/requests.ts';
import type { Commit } from '../../schemas/events/commit.ts';
import { type AdminContext, parseQuery } from '../admin-api/context.ts';
import { listEvents } from '../admin-api/event-routes.ts';
import { followRequests } from '../admin-api/request-routes.ts';
import { beginEvents, writeEvent } from '../admin-api/server-events.ts';
import { membershipsOf } from '../commands/authorise.ts';
import { requireSession } from './session-guard.ts';
import { actorOfSession, type ConsoleSession, type Sessions } from './sessions.ts';

/** Maximum number of events in one message. For larger batches only the position is sent, and the page reloads its lists. */
const eventsPerMessageMax = 200;
/** Interval in ms between pulses, shorter than the silence that proxies allow. Each pulse also checks session and role. */
const pulseMs = 15_000;
/** Types of events after which the session and role behind each stream are checked at once. */
const endingTypes = /^(?:session\.ended|member\.|organisation\.removed)/;
/** Interval in ms at which a stream checks whether the log has become available or unavailable. */
const lookMs = 1000;

export function registerLiveStream(api: FastifyInstance, context: AdminContext, sessions: Sessions): void {
  api.get('/stream', { config: { access: readingRoles, opens: 'stream' } }, (request, reply) => {
    const session = requireSession(request);
    follow(beginEvents(reply), context, session, sessions);
  });
  const followed = { config: { access: readingRoles, opens: 'follow' }, exposeHeadRoute: false } as const;
  api.get('/requests/stream', followed, (request, reply) => {
    const session = requireSession(request);
    return followRequests(reply, context, {
      actor: actorOfSession(session),
      query: parseQuery(requestTailQuerySchema, request.query),
      mayFollow: () => sessions.counts(session),
    });
  });
}

function follow(
  response: ServerResponse,
  context: AdminContext,
  session: ConsoleSession,
  sessions: Sessions,
): void {
  const isOperator = session.kind === 'operator';
  const mayFollow = (): boolean =>
    sessions.counts(session) &&
    (isOperator || membershipsOf(context.snapshot.db, actorOfSession(session)).length > 0);
  const { replicator } = context;
  let pulsed = { atMs: 0, logReachable: true };
  const pulse = (): void => {
    pulsed = { atMs: performance.now(), logReachable: replicator.reachable };
    if (!mayFollow()) {
      writeEvent(response, 'ended', {});
      response.end();
    } else
      writeEvent(response, 'pulse', { position: context.snapshot.seq, logReachable: pulsed.logReachable });
  };
  const stop = context.onCommits((commits) => {
    const { mayEnd, forOperators, forOthers } = toMessages(commits);
    if (mayEnd) pulse();
    writeEvent(response, 'commits', isOperator ? forOperators() : forOthers);
  });
  const timer = setInterval(() => {
    if (replicator.reachable !== pulsed.logReachable || performance.now() - pulsed.atMs >= pulseMs) pulse();
  }, lookMs);
  pulse();
  response.once('close', () => {
    clearInterval(timer);
    stop();
  });
}

interface Messages {
  /** Whether the batch contains events that may end sessions. */
  readonly mayEnd: boolean;
  readonly forOthers: string;
  forOperators(): string;
}

/** Messages for batches that are being sent. Each is built once and shared by all streams. */
const messages = new WeakMap<readonly Commit[], Messages>();

function toMessages(commits: readonly Commit[]): Messages {
  const known = messages.get(commits);
  if (known !== undefined) return known;
  let text: string | undefined;
  const made: Messages = {
    mayEnd: commits.some(({ events }) => events.some(({ type }) => endingTypes.test(type))),
    forOthers: JSON.stringify({ position: commits.at(-1)?.seq ?? 0 }),
    forOperators: () => {
      text ??= JSON.stringify(operatorsMessage(commits));
      return text;
    },
  };
  messages.set(commits, made);
  return made;
}

function operatorsMessage(commits: readonly Commit[]): object {
  const position = commits.at(-1)?.seq ?? 0;
  const count = commits.reduce((sum, { events }) => sum + events.length, 0);
  if (count > eventsPerMessageMax) return { position };
  return { position, events: commits.flatMap((commit) => listEvents(commit)) };
}
