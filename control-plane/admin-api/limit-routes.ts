/** Routes of limits: how much organisations and visitors use at present, over all gateways. */
import { isDeepStrictEqual } from 'node:util';
import type { LimitUse, OperationAnswer, OperationQuery, Organisation } from '../../schemas/admin/admin.ts';
import { readingRoles } from '../../schemas/admin/admin-row.ts';
import { pageRows } from '../../schemas/admin/page-rows.ts';
import { dayMs } from '../../schemas/durations.ts';
import { inFlightWindow } from '../../schemas/records/gauges.ts';
import { visitorsSubject } from '../../schemas/records/limits.ts';
import { windowMs, windowStartMs } from '../../shared/decision/decide.ts';
import { inSlices } from '../../shared/runtime/slices.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { anonymousTier } from '../../shared/snapshot/effect.ts';
import type { Release } from '../../shared/snapshot/waves.ts';
import { billingPeriod } from '../../shared/usage/period.ts';
import { authorise } from '../commands/authorise.ts';
import { CommandError } from '../core/command-error.ts';
import type { GaugeUse } from '../gateways/fleet-gauges.ts';
import { findAnonymous, findTier, listTiers } from '../state/catalog.ts';
import { formatCursor, parseCursor } from '../state/list-page.ts';
import { findAdjustment, findOrganisation, listOrganisations } from '../state/tenants.ts';
import { type AdminContext, requestActor } from './context.ts';
import { poolTokens, readPoolTokens } from './live-counters.ts';
import type { OperationHandlers } from './operations.ts';

type Context = Pick<AdminContext, 'snapshot' | 'usage' | 'counters' | 'gauges'>;

interface Use extends Pick<LimitUse, 'organisation' | 'tier' | 'tokens'> {
  readonly suspended?: boolean;
  readonly limits: TierLimits;
  readonly subject: string;
  readonly period: string;
}

type MutableGateway = {
  -readonly [Name in keyof LimitUse['gateways'][number]]: LimitUse['gateways'][number][Name];
};

/** Sums how much all gateways use, or only `gateway` if it is given. Returns null if the use is not known. */
function sumUses(uses: readonly GaugeUse[] | undefined, gateway?: string): number | null {
  if (uses === undefined) return null;
  return uses.reduce((sum, { name, used }) => (name === (gateway ?? name) ? sum + used : sum), 0);
}

/** Current use as the gateways report it. `requests` or `inFlight` is undefined if it has no limit or is not known. */
interface GaugedUse {
  readonly ms: number;
  readonly minuteMs: number;
  readonly requests: GaugeUse[] | undefined;
  readonly inFlight: GaugeUse[] | undefined;
}

function gauged(
  { gauges }: Context,
  { subject, limits: { requestsPerMinute, concurrency } }: Use,
  nowMs: number,
): GaugedUse {
  const minuteMs = windowStartMs(subject, nowMs);
  const ofLimit = (limit: number | null, window: number): GaugeUse[] | undefined =>
    limit === null ? undefined : gauges.uses(subject, window);
  const requests = ofLimit(requestsPerMinute, minuteMs);
  return { ms: nowMs, minuteMs, requests, inFlight: ofLimit(concurrency, inFlightWindow) };
}

/** Lists the use of each gateway, summed over its data folders and over processes that ran within the same minute. */
function listGatewayUses(
  { counters, gauges }: Context,
  { subject, period }: Use,
  now: GaugedUse,
): LimitUse['gateways'] {
  const gateways = new Map<string, MutableGateway>();
  const live = gauges.gateways();
  const rounded = (ms: number): number => Math.max(Math.round(ms / 100) / 10, 0);
  const of = (name: string, silentMs: number): MutableGateway => {
    const seconds = rounded(Math.min(silentMs, live.get(name) ?? silentMs));
    const known = gateways.get(name);
    if (known !== undefined) {
      known.ageSeconds = Math.min(known.ageSeconds, seconds);
      return known;
    }
    const made: MutableGateway = {
      ...{ name, tokens: 0, ageSeconds: seconds },
      requests: sumUses(now.requests, name),
      inFlight: sumUses(now.inFlight, name),
    };
    gateways.set(name, made);
    return made;
  };
  for (const { replica, sum } of counters.valuesOf(subject, period))
    of(replica.name ?? replica.id, now.ms - replica.ownMs).tokens += sum.tokens;
  for (const { name } of [...(now.requests ?? []), ...(now.inFlight ?? [])])
    of(name, live.get(name) ?? windowMs);
  return [...gateways.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

function shown(context: Context, use: Use, now: GaugedUse): LimitUse {
  const { organisation, tier, suspended, limits, tokens } = use;
  const { ms: nowMs, minuteMs, requests, inFlight } = now;
  const { requestsPerMinute: limit, concurrency } = limits;
  const secondsLeft = limit === null ? null : Math.ceil((minuteMs + windowMs - nowMs) / 1000);
  return {
    ...{ organisation, tier, ...(suspended && { suspended: true as const }) },
    requests: { used: sumUses(requests), limit, secondsLeft },
    concurrency: { inFlight: sumUses(inFlight), limit: concurrency },
    tokens,
    gateways: listGatewayUses(context, use, now),
    position: context.snapshot.seq,
  };
}

function describeUse(
  context: Context,
  { id, tier, anchor, suspended }: Organisation,
  limits: TierLimits,
  nowMs: number,
): Use {
  const { db } = context.snapshot;
  const { start, endMs } = billingPeriod(anchor, nowMs);
  const asker = { organisation: id, period: start, adjustment: findAdjustment(db, id, start) };
  const refillsAt = new Date(endMs).toISOString();
  const tokens = { used: readPoolTokens(context, asker), limit: limits.tokens, refillsAt };
  return { organisation: id, tier, suspended, limits, tokens, subject: id, period: start };
}

function ofVisitors(context: Context, nowMs: number): LimitUse {
  const { db } = context.snapshot;
  if (!findAnonymous(db))
    throw new CommandError('NotFound', 'visitors are not served', { next: 'headgate tier set anonymous' });
  const limits = readLimits(db, anonymousTier);
  const period = new Date(nowMs).toISOString().slice(0, 10);
  const used = poolTokens(context, visitorsSubject, period);
  const refillsAt = new Date(Date.parse(period) + dayMs).toISOString();
  const tokens = { used, limit: limits.tokens, refillsAt };
  const use: Use = {
    organisation: null,
    tier: anonymousTier,
    limits,
    tokens,
    subject: visitorsSubject,
    period,
  };
  return shown(context, use, gauged(context, use, nowMs));
}

/** Adds the limits that apply at gateways which the open change has reached, if these limits differ from the others. */
function withWave({ snapshot }: Context, use: LimitUse): LimitUse {
  const { tier, requests, concurrency, tokens } = use;
  if (tier === null) return use;
  const now = { requestsPerMinute: requests.limit, concurrency: concurrency.limit, tokens: tokens.limit };
  return snapshot.stateAt({ kind: 'present', view: 'wave' }, ({ db, overlaid }) => {
    if (overlaid === undefined) return use;
    const limits = readLimits(db, tier);
    if (isDeepStrictEqual(limits, now)) return use;
    const { change, wave, waves } = overlaid;
    return { ...use, inWave: { change, wave, waves, ...limits } };
  });
}

type TierLimits = Omit<NonNullable<LimitUse['inWave']>, keyof Release>;

function readLimits(db: Database, tier: string): TierLimits {
  if (tier !== anonymousTier) return pickLimits(findTier(db, tier));
  const { tokensPerDay: monthlyTokens, ...total } = findAnonymous(db)?.total ?? {};
  return pickLimits({ ...total, monthlyTokens });
}

function pickLimits({
  requestsPerMinute = null,
  concurrency = null,
  monthlyTokens = null,
}: {
  readonly [Name in 'requestsPerMinute' | 'concurrency' | 'monthlyTokens']?: number | null | undefined;
} = {}): TierLimits {
  return { requestsPerMinute, concurrency, tokens: monthlyTokens };
}

/** Limits on an organisation that is suspended or has no tier. */
const nothingAllowed: TierLimits = { requestsPerMinute: 0, concurrency: 0, tokens: 0 };

function planLimits(
  { tier, suspended }: Organisation,
  find: (tier: string) => TierLimits | undefined,
): TierLimits {
  return (suspended || tier === null ? undefined : find(tier)) ?? nothingAllowed;
}

/** Returns how much of its nearest limit an organisation uses, as a fraction of the limit. */
function nearest({ limits, tokens }: Use, { requests, inFlight }: GaugedUse): number {
  const part = (used: number | null, limit: number | null): number =>
    used === null || limit === null || limit === 0 ? 0 : used / limit;
  return Math.max(
    part(sumUses(requests), limits.requestsPerMinute),
    part(sumUses(inFlight), limits.concurrency),
    part(tokens.used, tokens.limit),
  );
}

const byNearest = { name: 'nearest' };

/** Lists organisations nearest to a limit first. An organisation whose use changes may appear on two pages or on none. */
function* pageOfUses(
  context: Context,
  { limit = pageRows.default, after }: OperationQuery<'limits.list'>,
): Generator<void, Omit<OperationAnswer<'limits.list'>, 'position'>> {
  const nowMs = context.gauges.logNow();
  const { db } = context.snapshot;
  const tiers = new Map(listTiers(db).map((tier) => [tier.id, pickLimits(tier)]));
  const [last = Number.POSITIVE_INFINITY, lastId = ''] =
    after === undefined ? [] : parseCursor(after, byNearest, ['organisation']);
  const organisations = listOrganisations(db);
  const behind: { readonly use: Use; readonly now: GaugedUse; readonly id: string; readonly part: number }[] =
    [];
  for (const organisation of organisations) {
    yield;
    const { id } = organisation;
    const use = describeUse(
      context,
      organisation,
      planLimits(organisation, (tier) => tiers.get(tier)),
      nowMs,
    );
    const now = gauged(context, use, nowMs);
    const part = nearest(use, now);
    if (part < Number(last) || (part === Number(last) && id > String(lastId)))
      behind.push({ use, now, id, part });
  }
  behind.sort((a, b) => b.part - a.part || (a.id < b.id ? -1 : 1));
  const page = behind.slice(0, limit);
  const end = behind.length > limit ? page.at(-1) : undefined;
  const next = end && formatCursor(byNearest, [end.part, end.id]);
  return {
    items: page.map(({ use, now }) => shown(context, use, now)),
    ...(next !== undefined && { next }),
    total: organisations.length,
  };
}

type LimitName = 'limits.list' | 'limits.visitors' | 'organisation.limits';

export function limitHandlers(context: Context): OperationHandlers<LimitName> {
  const { db } = context.snapshot;
  return {
    'limits.list': async ({ query }) => ({
      ...(await inSlices(pageOfUses(context, query))),
      position: context.snapshot.seq,
    }),
    'limits.visitors': () => withWave(context, ofVisitors(context, context.gauges.logNow())),
    'organisation.limits': ({ params: { id }, request }) => {
      authorise(db, requestActor(request), readingRoles, () => id);
      const organisation = findOrganisation(db, id);
      if (!organisation) throw new CommandError('NotFound', `there is no organisation ${id}`);
      const nowMs = context.gauges.logNow();
      const limits = planLimits(organisation, (tier) => readLimits(db, tier));
      const use = describeUse(context, organisation, limits, nowMs);
      return withWave(context, shown(context, use, gauged(context, use, nowMs)));
    },
  };
}
