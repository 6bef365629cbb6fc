/** Routes of usage: an organisation's totals in a period, and one line for each completed request, for billing. */
import { Readable } from 'node:stream';
import type { FastifyRequest } from 'fastify';
import type { OperationAnswer, OperationQuery, UsageTotals } from '../../schemas/admin/admin.ts';
import { readingRoles } from '../../schemas/admin/admin-row.ts';
import { visitorsSubject } from '../../schemas/records/limits.ts';
import type { UsageLine, UsageRow } from '../../schemas/records/usage.ts';
import { wallClockMs } from '../../shared/runtime/clock.ts';
import { billingPeriod } from '../../shared/usage/period.ts';
import { authorise } from '../commands/authorise.ts';
import { CommandError } from '../core/command-error.ts';
import { findTier } from '../state/catalog.ts';
import { listPage } from '../state/list-page.ts';
import { findAdjustment, findKey, findOrganisation, keyListing } from '../state/tenants.ts';
import { type AdminContext, requestActor } from './context.ts';
import { readPoolTokens } from './live-counters.ts';
import type { OperationHandlers } from './operations.ts';

type Context = Pick<AdminContext, 'snapshot' | 'past' | 'usage' | 'counters' | 'gauges'>;

/** Maximum number of periods in a response, newest first. */
const periodsListed = 24;
const rowsPerRead = 500;

function usage(context: Context, query: OperationQuery<'usage.get'>): UsageTotals {
  const { db, seq } = context.snapshot;
  const organisation = findOrganisation(db, query.organisation);
  if (!organisation) throw new CommandError('NotFound', `there is no organisation ${query.organisation}`);
  const present = billingPeriod(organisation.anchor, context.gauges.logNow()).start;
  const periods = [...new Set([...context.usage.periods(organisation.id), present])].sort().reverse();
  const period = query.period ?? present;
  if (!periods.includes(period) && billingPeriod(organisation.anchor, Date.parse(period)).start !== period)
    throw new CommandError('InvalidCommand', `no billing period of ${organisation.id} begins on ${period}`, {
      next: `its periods begin on day ${Number(organisation.anchor.slice(8))} of the month; periods with usage: ${periods.slice(0, periodsListed).join(', ')}`,
    });
  const tier = organisation.tier === null ? undefined : findTier(db, organisation.tier);
  const allowance = tier === undefined ? 0 : (tier.monthlyTokens ?? null);
  const adjustment = findAdjustment(db, organisation.id, period);
  const asker = { organisation: organisation.id, period, adjustment };
  return {
    organisation: organisation.id,
    period,
    ...context.usage.totals(organisation.id, period),
    countedTokens: period === present ? readPoolTokens(context, asker) : null,
    adjustedTokens: adjustment,
    allowance,
    periods: periods.slice(0, periodsListed),
    position: seq,
  };
}

/** Sums the usage of visitors in the current UTC day and month. */
function usageOfVisitors(context: Context, nowMs: number): OperationAnswer<'usage.visitors'> {
  const today = new Date(nowMs).toISOString().slice(0, 10);
  const month = `${today.slice(0, 7)}-01`;
  const days = context.usage.periods(visitorsSubject);
  const sum = (from: string) => {
    const total = { from, requests: 0, promptTokens: 0, completionTokens: 0, totalTokens: 0 };
    for (const day of days.filter((each) => each >= from && each <= today))
      for (const model of context.usage.totals(visitorsSubject, day).models) {
        total.requests += model.requests;
        total.promptTokens += model.promptTokens;
        total.completionTokens += model.completionTokens;
        total.totalTokens += model.totalTokens;
      }
    return total;
  };
  return { visitors: { day: sum(today), month: sum(month) }, position: context.snapshot.seq };
}

/** Yields usage lines. One organisation's rows are read period by period, so that no other organisation's rows are read. */
async function* lines(context: Context, query: OperationQuery<'usage.export'>): AsyncIterable<string> {
  const { organisation } = query;
  if (organisation === undefined) yield* readUsageLines(context, query, {});
  else
    for (const period of context.usage.periods(organisation))
      yield* readUsageLines(context, query, { organisation, period });
}

/** Formats rows with the names of their keys, because ids mean nothing to people. Each name is looked up once per slice. */
async function linesWithNames(
  context: Context,
  slice: readonly { readonly row: UsageRow }[],
): Promise<string> {
  const names = await keyNames(context, [...new Set(slice.flatMap(({ row: { key } }) => key ?? []))]);
  const toUsageLine = (row: UsageRow): UsageLine => {
    const keyName = names.get(row.key ?? '');
    return keyName === undefined ? row : { ...row, keyName };
  };
  return slice.map(({ row }) => `${JSON.stringify(toUsageLine(row))}\n`).join('');
}

/** Looks up the names of keys in the state, or in the history if the keys were removed and the history responds. */
async function keyNames(
  { snapshot, past }: Context,
  ids: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const nowMs = wallClockMs();
  const found = ids.map((id) => [id, findKey(snapshot.db, id, nowMs)?.name] as const);
  const gone = found.filter(([, name]) => name === undefined).map(([id]) => id);
  const earlier = gone.length === 0 ? [] : await past.ask('keyNames', [snapshot.seq, gone]).catch(() => []);
  return new Map([...earlier, ...found.filter((each): each is [string, string] => each[1] !== undefined)]);
}

/** Reads in slices, so that a long export never blocks the event loop. Reads no faster than the client. */
async function* readUsageLines(
  context: Context,
  query: OperationQuery<'usage.export'>,
  part: { readonly organisation?: string; readonly period?: string },
): AsyncIterable<string> {
  for (let afterId = 0; ; ) {
    const read = context.usage.requests({
      ...part,
      from: query.from,
      to: query.to,
      afterId,
      limit: rowsPerRead,
    });
    const wanted = read.filter(({ row }) => {
      const day = row.at.slice(0, 10);
      return (query.from === undefined || day >= query.from) && (query.to === undefined || day < query.to);
    });
    if (wanted.length > 0) yield await linesWithNames(context, wanted);
    if (read.length < rowsPerRead) return;
    afterId = read.at(-1)?.id ?? afterId;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

type UsageName = 'usage.get' | 'usage.keys' | 'usage.visitors' | 'usage.export';

export function usageHandlers(context: Context): OperationHandlers<UsageName> {
  const { db } = context.snapshot;
  /** Authorises the query. Only operators may read the usage of all organisations together. */
  const mayRead = (request: FastifyRequest, organisation: string | undefined): void =>
    authorise(
      db,
      requestActor(request),
      organisation === undefined ? 'operator' : readingRoles,
      () => organisation,
    );
  return {
    'usage.get': ({ query, request }) => {
      mayRead(request, query.organisation);
      return usage(context, query);
    },
    'usage.keys': ({ query, request }) => {
      mayRead(request, query.organisation);
      const nowMs = wallClockMs();
      const { items: keys, next } = listPage(db, keyListing, { ...query, owner: query.organisation, nowMs });
      const items = keys.flatMap(({ id }) => context.usage.keyUse(id, context.gauges.logNow()) ?? []);
      return { items, ...(next !== undefined && { next }), position: context.snapshot.seq };
    },
    'usage.visitors': () => usageOfVisitors(context, context.gauges.logNow()),
    'usage.export': ({ query, request, reply }) => {
      mayRead(request, query.organisation);
      const from = context.usage.completeFrom;
      if (from !== undefined) reply.header('x-headgate-complete-from', from);
      return reply.type('application/x-ndjson').send(Readable.from(lines(context, query)));
    },
  };
}
