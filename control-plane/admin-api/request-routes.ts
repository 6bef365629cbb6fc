/**
 * Routes of completed requests: a list and a live stream. Members see one organisation's rows, without fields for operators.
 */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { FastifyReply } from 'fastify';
import { z } from 'zod';
import type { OperationQuery } from '../../schemas/admin/admin.ts';
import { readingRoles } from '../../schemas/admin/admin-row.ts';
import { parseMoment } from '../../schemas/admin/moments.ts';
import type { RequestList, RequestRow, RequestsMessage } from '../../schemas/admin/requests.ts';
import { slowerThanMs } from '../../schemas/durations.ts';
import { requestFields } from '../../schemas/records/request-record.ts';
import { wallClockMs } from '../../shared/runtime/clock.ts';
import { Sealer } from '../../shared/runtime/sealed-text.ts';
import { type Actor, authorise } from '../commands/authorise.ts';
import { CommandError } from '../core/command-error.ts';
import { type AskedRequests, type GivenRow, requestPage } from '../gateways/ask-requests.ts';
import type { FollowedRequests } from '../gateways/live-requests.ts';
import { findStack } from '../state/capacity.ts';
import { findKey } from '../state/tenants.ts';
import { type AdminContext, clientSignal, type GatewayQuestions, requestActor } from './context.ts';
import type { OperationHandlers } from './operations.ts';
import { beginEvents, writeEvent } from './server-events.ts';

type Context = Pick<
  AdminContext,
  GatewayQuestions | 'snapshot' | 'gauges' | 'liveRequests' | 'operatorToken' | 'drain' | 'logger'
>;

type Filters = Omit<OperationQuery<'request.tail'>, 'limit' | 'rows-per-second'>;

function isHidden(name: 'node' | 'cause'): boolean {
  return requestFields[name].seenBy === 'operator';
}

/** Throws `CommandError` if the actor may not make this query. A stream repeats this check while it lasts. */
function authoriseQuery({ snapshot }: Context, actor: Actor, query: Filters): void {
  authorise(snapshot.db, actor, readingRoles, () => query.organisation);
  if (actor.person !== undefined && query.node !== undefined && isHidden('node'))
    throw new CommandError('Forbidden', 'only operators see which node served a request', {
      next: 'leave node out',
    });
}

function toRequestQuery({ gauges }: Context, query: Filters): AskedRequests {
  const { outcome, type, model, organisation, key, node, gateway, since, request } = query;
  const { 'slower-than': slower } = query;
  const moment = since === undefined ? undefined : parseMoment(since, gauges.logNow());
  if (since !== undefined && (moment === undefined || 'position' in moment))
    throw new CommandError('InvalidCommand', 'since must be a time, or an age such as 10m');
  return {
    gateway,
    filter: {
      ...{ outcome, type, model, organisation, key, node, request },
      sinceMs: moment && 'timeMs' in moment ? Math.max(0, Math.floor(moment.timeMs)) : undefined,
      slowerThanMs: slower === undefined ? undefined : slowerThanMs(slower),
    },
  };
}

/** Completes the rows of one response from the state, and removes what the actor may not see. */
class RowPresenter {
  readonly #context: Context;
  readonly #isOperator: boolean;
  readonly #organisation: string | undefined;
  readonly #keys = new Map<string, ReturnType<typeof findKey>>();

  constructor(context: Context, actor: Actor, { organisation }: Filters) {
    this.#context = context;
    this.#isOperator = actor.person === undefined;
    this.#organisation = organisation;
  }

  resolveKey(id: string | undefined): ReturnType<typeof findKey> {
    if (id === undefined) return undefined;
    if (!this.#keys.has(id)) this.#keys.set(id, findKey(this.#context.snapshot.db, id, wallClockMs()));
    return this.#keys.get(id);
  }

  /** Whether the query includes rows of this organisation. */
  isWanted(organisation: string | undefined): boolean {
    return this.#organisation === undefined || organisation === this.#organisation;
  }

  /** Converts a row for the response. Returns undefined if it belongs to an organisation outside the query. */
  row({
    gateway,
    row: { request, at, status, endedMs: _ended, n: _n, ...rest },
  }: GivenRow): RequestRow | undefined {
    const key = this.resolveKey(rest.key);
    const organisation = rest.organisation ?? key?.organisation;
    if (!this.isWanted(organisation)) return undefined;
    const keyName = key?.organisation === organisation ? key?.name : undefined;
    const shown: RequestRow = {
      ...{ request, at, gateway },
      ...(organisation !== undefined && { organisation }),
      ...(rest.key !== undefined && { key: rest.key }),
      ...(keyName !== undefined && { keyName }),
      ...rest,
      ...(status !== 0 && { status }),
    };
    return this.#isOperator ? shown : this.#forMembers(shown, key?.organisation);
  }

  #forMembers({ node, cause, key, host, ...row }: RequestRow, ofKey: string | undefined): RequestRow {
    const { organisation } = row;
    // Hides a host or key that belongs to another organisation, because nobody may learn what others have.
    const isOwnHost =
      host === 'shared' || findStack(this.#context.snapshot.db, host)?.organisation === organisation;
    return {
      ...row,
      host: isOwnHost ? host : 'unknown',
      ...(key !== undefined && ofKey === organisation && { key }),
      ...(node !== undefined && !isHidden('node') && { node }),
      ...(cause !== undefined && !isHidden('cause') && { cause }),
    };
  }
}

const cursorSchema = z.array(z.tuple([z.string().max(200), z.int().min(0)]));
/** Maximum length of a cursor in the query. */
const cursorLengthMax = 12_000;

/** Returns the sealer that encrypts a query's cursors. A readable cursor would reveal how many requests others make. */
function cursorSealer({ operatorToken }: Context, query: Filters): Sealer {
  const digest = createHash('sha256').update(JSON.stringify(query)).digest('base64url');
  return new Sealer(operatorToken, `page of requests ${digest}`, cursorLengthMax);
}

function openCursor(sealer: Sealer, next: string | undefined): ReadonlyMap<string, number> | undefined {
  if (next === undefined) return undefined;
  const cursor = sealer.open(next, cursorSchema);
  if (cursor !== undefined) return new Map(cursor);
  throw new CommandError('InvalidCommand', 'next is not the cursor of an earlier page', {
    next: 'begin again without it',
  });
}

async function listed(
  context: Context,
  actor: Actor,
  { limit, next, ...query }: OperationQuery<'request.list'>,
  client: AbortSignal,
): Promise<RequestList> {
  const shown = new RowPresenter(context, actor, query);
  const sealer = cursorSealer(context, query);
  const page = await requestPage(
    context,
    { ...toRequestQuery(context, query), limit, from: openCursor(sealer, next) },
    (given) => shown.row(given),
    client,
  );
  const { items, silent } = page;
  if (page.next === undefined) return { items, silent };
  return { items, next: sealer.seal([...page.next]), silent };
}

export function requestHandlers(context: Context): OperationHandlers<'request.list'> {
  return {
    'request.list': ({ query, request, reply }) => {
      const actor = requestActor(request);
      authoriseQuery(context, actor, query);
      const client = clientSignal(reply);
      return context.gatewayTurns.run(actor, client, () => listed(context, actor, query, client));
    },
  };
}

export interface Following {
  readonly actor: Actor;
  readonly query: OperationQuery<'request.tail'>;
  /** Whether the follower's session is still valid. */
  mayFollow(): boolean;
}

/** Longest time in ms that a client may stop reading before its stream ends. Until then, a limited number of rows waits. */
const readWithinMs = 30_000;
/** Maximum number of rows in one message. If there are more, they are sent as several messages. */
const rowsPerMessageMax = 500;
/** Interval in ms between pulses, shorter than the silence that proxies allow. Each pulse also checks the client's rights. */
const pulseMs = 10_000;

/** Maximum number of rows per second in a member's stream, as many as a page shows. Gateways count further rows as missed. */
const memberRowsPerSecond = 100;

function memberRate({ 'rows-per-second': asked = memberRowsPerSecond }: Following['query']): number {
  return Math.min(asked, memberRowsPerSecond);
}

/** Sends server-sent events, as `schemas/admin/requests.ts` defines them, until the client disconnects. */
export function followRequests(reply: FastifyReply, context: Context, following: Following): FastifyReply {
  const { actor, query } = following;
  authoriseQuery(context, actor, query);
  const rowsPerSecond = actor.person === undefined ? query['rows-per-second'] : memberRate(query);
  const asked = { ...toRequestQuery(context, query), rowsPerSecond };
  const client = clientSignal(reply);
  const response = beginEvents(reply);
  context.drain.track({
    close: () => response.end(),
    terminate: () => response.destroy(),
    once: (event, listener) => response.once(event, listener),
  });
  const timer = setInterval(() => pulse(response, context, following), pulseMs);
  response.once('close', () => clearInterval(timer));
  send(response, context, following, asked, client).catch((error: unknown) => {
    // A `CommandError` means that the client left or waited too long for the newest rows. It retries, so do not warn.
    if (!(error instanceof CommandError)) context.logger.warn({ err: error }, 'a stream of requests failed');
    response.destroy();
  });
  return reply;
}

/** Writes rows as messages, with the newest row of each message last. Resolves once the client can take more. */
export async function writeRows(
  response: ServerResponse,
  rows: readonly RequestRow[],
  { silent, missed = 0 }: Pick<RequestsMessage, 'silent' | 'missed'>,
  client: AbortSignal,
): Promise<void> {
  let from = 0;
  do {
    const items = rows.slice(from, from + rowsPerMessageMax).toReversed();
    const isFirst = from === 0;
    from += rowsPerMessageMax;
    writeEvent(response, 'requests', { items, silent, ...(isFirst && missed > 0 && { missed }) });
    if (response.writableNeedDrain) {
      const signal = AbortSignal.any([client, AbortSignal.timeout(readWithinMs)]);
      await once(response, 'drain', { signal }).catch(() => response.destroy());
    }
  } while (from < rows.length && !response.destroyed);
}

function mayStillFollow(context: Context, { actor, query, mayFollow }: Following): boolean {
  try {
    authoriseQuery(context, actor, query);
    return mayFollow();
  } catch {
    return false;
  }
}

/** Sends a pulse, or ends the stream if its follower no longer has the right to follow it. */
function pulse(response: ServerResponse, context: Context, following: Following): void {
  if (mayStillFollow(context, following)) writeEvent(response, 'pulse', {});
  else {
    writeEvent(response, 'ended', {});
    response.end();
  }
}

/** Sends listed rows, then live ones. Follows the gateways first, so that no row is missed. Sends a row in both only once. */
async function send(
  response: ServerResponse,
  context: Context,
  following: Following,
  asked: FollowedRequests,
  client: AbortSignal,
): Promise<void> {
  const { actor, query } = following;
  let sent: Set<string> | undefined;
  for await (const { rows, silent, missed } of context.liveRequests.follow(context, asked, client)) {
    // Use a new presenter for each batch, so that keys created or renamed in the meantime are known.
    const shown = new RowPresenter(context, actor, query);
    const given = rows.flatMap((row) => shown.row(row) ?? []);
    if (sent === undefined) {
      const limit = Math.max(query.limit, 1);
      const newest = { ...query, limit, next: undefined };
      const first = await context.gatewayTurns.run(actor, client, () =>
        listed(context, actor, newest, client),
      );
      if (client.aborted) return;
      if (!mayStillFollow(context, following)) return pulse(response, context, following);
      if (query.limit === 0) first.items.length = 0;
      const known = new Set(first.items.map(({ request }) => request));
      sent = known;
      writeEvent(response, 'requests', {
        ...first,
        silent: merged(first.silent, silent),
      } satisfies RequestsMessage);
    }
    const known = sent;
    const fresh = given.filter(({ request }) => !known.has(request));
    if (!mayStillFollow(context, following)) return pulse(response, context, following);
    await writeRows(response, fresh, { silent: [...silent], missed }, client);
  }
}

function merged(one: readonly string[], other: readonly string[]): string[] {
  return [...new Set([...one, ...other])].sort();
}
