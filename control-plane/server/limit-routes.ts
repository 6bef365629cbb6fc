/** Routes of limits: what organisations and visitors use of theirs now, over all gateways. */
import type { FastifyInstance } from 'fastify';
import type { LimitUse, Organisation } from '../../schemas/admin.ts';
import { visitorsSubject } from '../../schemas/limits.ts';
import { periodOf } from '../../shared/usage/period.ts';
import { authorise, readingRoles } from '../commands/authorise.ts';
import { CommandError } from '../core/command-error.ts';
import { findAnonymous, findTier } from '../state/catalog.ts';
import { findAdjustment, findOrganisation, listOrganisations } from '../state/tenants.ts';
import { type AdminContext, actorOf, parseQuery, readQuerySchema } from './context.ts';

const dayMs = 24 * 3600 * 1000;

interface Use {
  readonly organisation: string | null;
  readonly tier: string | null;
  readonly requestsPerMinute: number | null;
  readonly concurrency: number | null;
  readonly tokens: LimitUse['tokens'];
  readonly subject: string;
  readonly period: string;
}

/** By gateway, although a gateway may have had several data folders. */
function gatewaysOf(
  { counters }: AdminContext,
  { subject, period }: Use,
  nowMs: number,
): LimitUse['gateways'] {
  const gateways = new Map<string, LimitUse['gateways'][number]>();
  for (const { replica, sum } of counters.valuesOf(subject, period)) {
    const name = replica.name ?? replica.id;
    const before = gateways.get(name);
    const ageSeconds = Math.round((nowMs - replica.ownMs) / 100) / 10;
    gateways.set(name, {
      name,
      requests: null,
      inFlight: null,
      tokens: sum.tokens + (before?.tokens ?? 0),
      ageSeconds: Math.max(Math.min(ageSeconds, before?.ageSeconds ?? ageSeconds), 0),
    });
  }
  return [...gateways.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

function shown(context: AdminContext, use: Use, nowMs: number): LimitUse {
  const { organisation, tier, requestsPerMinute, concurrency, tokens } = use;
  return {
    organisation,
    tier,
    requests: { used: null, limit: requestsPerMinute, secondsLeft: null },
    concurrency: { inFlight: null, limit: concurrency },
    tokens,
    gateways: gatewaysOf(context, use, nowMs),
    position: context.snapshot.seq,
  };
}

function ofOrganisation(context: AdminContext, { id, tier, anchor }: Organisation, nowMs: number): LimitUse {
  const { db } = context.snapshot;
  const { start, endMs } = periodOf(anchor, nowMs);
  const limits = tier === null ? undefined : findTier(db, tier);
  const completed = context.counters.used(id, start).tokens;
  const use: Use = {
    organisation: id,
    tier,
    requestsPerMinute: limits?.requestsPerMinute ?? null,
    concurrency: limits?.concurrency ?? null,
    tokens: {
      used: Math.max(completed + findAdjustment(db, id, start), 0),
      limit: limits?.monthlyTokens ?? null,
      refillsAt: new Date(endMs).toISOString(),
    },
    subject: id,
    period: start,
  };
  return shown(context, use, nowMs);
}

function ofVisitors(context: AdminContext, nowMs: number): LimitUse {
  const anonymous = findAnonymous(context.snapshot.db);
  if (!anonymous)
    throw new CommandError('NotFound', 'visitors are not served', { next: 'headgate tier set anonymous' });
  const period = new Date(nowMs).toISOString().slice(0, 10);
  const use: Use = {
    organisation: null,
    tier: 'anonymous',
    requestsPerMinute: anonymous.total?.requestsPerMinute ?? null,
    concurrency: anonymous.total?.concurrency ?? null,
    tokens: {
      used: context.counters.used(visitorsSubject, period).tokens,
      limit: anonymous.total?.tokensPerDay ?? null,
      refillsAt: new Date(Date.parse(period) + dayMs).toISOString(),
    },
    subject: visitorsSubject,
    period,
  };
  return shown(context, use, nowMs);
}

/** The largest part of any limit that is used. */
function nearest({ requests, concurrency, tokens }: LimitUse): number {
  const part = (used: number | null, limit: number | null): number =>
    used === null || limit === null ? 0 : used / Math.max(limit, 1);
  return Math.max(
    part(requests.used, requests.limit),
    part(concurrency.inFlight, concurrency.limit),
    part(tokens.used, tokens.limit),
  );
}

export function registerLimitRoutes(app: FastifyInstance, context: AdminContext): void {
  const { db } = context.snapshot;
  app.get(
    '/limits',
    { config: { access: 'operator' }, schema: { summary: 'Use of all limits, who is nearest first' } },
    (request) => {
      const { limit } = parseQuery(readQuerySchema, request.query);
      const nowMs = Date.now();
      const items = listOrganisations(db).map((organisation) => ofOrganisation(context, organisation, nowMs));
      items.sort((a, b) => nearest(b) - nearest(a));
      return { items: items.slice(0, limit), position: context.snapshot.seq };
    },
  );
  app.get(
    '/limits/visitors',
    { config: { access: 'operator' }, schema: { summary: 'Use of the limits of all visitors together' } },
    () => ofVisitors(context, Date.now()),
  );
  app.get<{ Params: { id: string } }>(
    '/organisations/:id/limits',
    { config: { access: readingRoles }, schema: { summary: "Use of an organisation's limits" } },
    (request) => {
      const { id } = request.params;
      authorise(db, actorOf(request), readingRoles, () => id);
      const organisation = findOrganisation(db, id);
      if (!organisation) throw new CommandError('NotFound', `there is no organisation ${id}`);
      return ofOrganisation(context, organisation, Date.now());
    },
  );
}
