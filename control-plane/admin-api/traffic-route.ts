/** Routes of the last hour's traffic as gateways counted it: steps for plots, refusals by type, and calls per key. */
import type { OperationAnswer, OperationQuery } from '../../schemas/admin/admin.ts';
import { readingRoles } from '../../schemas/admin/admin-row.ts';
import { hourMs } from '../../schemas/durations.ts';
import { visitorsSubject } from '../../schemas/records/limits.ts';
import { addRefused, firstTokenBounds, ownTimeBounds, type Refusals } from '../../schemas/records/traffic.ts';
import { type Actor, authorise } from '../commands/authorise.ts';
import { CommandError } from '../core/command-error.ts';
import { interpolateQuantile, type StepSums, TrafficSteps } from '../gateways/traffic-steps.ts';
import { findStack } from '../state/capacity.ts';
import { findOrganisation } from '../state/tenants.ts';
import { type AdminContext, requestActor } from './context.ts';
import type { OperationHandlers } from './operations.ts';

type Context = Pick<AdminContext, 'snapshot' | 'board' | 'traffic'>;

const stepMs = 10_000;
/** Delay in ms before a step is reported, by which time every gateway has published its counts for the step. */
const reportedMs = 12_000;
/** Number of latest steps whose average is reported as the current traffic. */
const stepsOfNow = 3;

type Answer = OperationAnswer<'traffic.get'>;
type Step = Answer['steps'][number];

/** Limits the query to what the actor may read. A person may read their own organisation and requests to its stacks. */
function readable(
  { snapshot: { db } }: Context,
  actor: Actor,
  asked: OperationQuery<'traffic.get'>,
): OperationQuery<'traffic.get'> {
  if (actor.person === undefined) return asked;
  const { organisation, stack, gateway, node } = asked;
  const owner = stack === undefined ? organisation : findStack(db, stack)?.organisation;
  const isOthers = gateway !== undefined || node !== undefined || (organisation ?? owner) !== owner;
  authorise(db, actor, readingRoles, () => (isOthers ? undefined : owner));
  return { organisation: owner, stack };
}

export function trafficHandlers(context: Context): OperationHandlers<'traffic.get'> {
  return {
    'traffic.get': ({ query, request }) => {
      const asked = readable(context, requestActor(request), query);
      const nowMs = context.traffic.now();
      const untilMs = Math.floor((nowMs - reportedMs) / stepMs) * stepMs;
      const { organisation, stack, gateway, node } = asked;
      // Gateways count requests in flight only in total, not by organisation, stack or node.
      const isOfGateways = [organisation, stack, node].every((name) => name === undefined);
      const steps = new TrafficSteps({ untilMs, stepMs, steps: hourMs / stepMs });
      addAsked(steps, context, nowMs, asked);
      if (isOfGateways) addInFlight(steps, context, nowMs, gateway);
      return {
        ...{ stepSeconds: stepMs / 1000, until: new Date(untilMs).toISOString() },
        steps: steps.found().map(([endMs, step]) => toStep(endMs, step, isOfGateways)),
        ...(isOfGateways && gateway === undefined && { nodes: nodesNow(context, nowMs, untilMs) }),
        ...howFar(context, nowMs),
      };
    },
  };
}

/** Adds the traffic of one node if the query names it, otherwise the rows that match the query. */
function addAsked(
  steps: TrafficSteps,
  { traffic }: Context,
  nowMs: number,
  { node, ...where }: OperationQuery<'traffic.get'>,
): void {
  const found = node === undefined ? traffic.rows(nowMs, where) : traffic.nodes(nowMs, node);
  for (const counted of found) steps.add(counted, counted.row);
}

function addInFlight(
  steps: TrafficSteps,
  { traffic }: Context,
  nowMs: number,
  gateway: string | undefined,
): void {
  for (const counted of traffic.reports(nowMs))
    if (gateway === undefined || gateway === counted.gateway)
      steps.addInFlight(counted, counted.report.inFlight);
}

function toStep(endMs: number, step: StepSums, isOfGateways: boolean): Step {
  const firstTokenMs = computeQuantiles(step.firstToken, firstTokenBounds);
  const ownTimeMs = computeQuantiles(step.ownTime, ownTimeBounds);
  return {
    at: new Date(endMs).toISOString(),
    requestsPerSecond: perSecond(step.requests, stepMs),
    refusedPerSecond: Object.fromEntries(
      [...step.refused].map(([type, requests]) => [type, perSecond(requests, stepMs)]),
    ),
    tokensPerSecond: perSecond(step.tokens, stepMs),
    ...(firstTokenMs && { firstTokenMs }),
    ...(ownTimeMs && { ownTimeMs }),
    ...(isOfGateways && { inFlight: rounded(step.inFlight) }),
  };
}

/** Lists nodes that are answering requests, busiest first. */
function nodesNow({ traffic }: Context, nowMs: number, untilMs: number): NonNullable<Answer['nodes']> {
  const spanMs = stepsOfNow * stepMs;
  const byNode = new Map<string, TrafficSteps>();
  for (const counted of traffic.nodes(nowMs)) {
    const { node } = counted.row;
    const steps = byNode.get(node) ?? new TrafficSteps({ untilMs, stepMs: spanMs, steps: 1 });
    byNode.set(node, steps);
    steps.add(counted, counted.row);
  }
  return [...byNode]
    .flatMap(([node, steps]) =>
      steps.found().map(([, { requests, tokens }]) => ({
        node,
        requestsPerSecond: perSecond(requests, spanMs),
        tokensPerSecond: perSecond(tokens, spanMs),
      })),
    )
    .sort((a, b) => b.requestsPerSecond - a.requestsPerSecond);
}

function computeQuantiles(counts: readonly number[], bounds: readonly number[]): Step['ownTimeMs'] {
  const [p50, p95] = [interpolateQuantile(counts, bounds, 0.5), interpolateQuantile(counts, bounds, 0.95)];
  return p50 === undefined || p95 === undefined ? undefined : { p50: rounded(p50), p95: rounded(p95) };
}

function perSecond(value: number, ms: number): number {
  return rounded(value / (ms / 1000));
}

/** Rounds to three decimals, because more digits would only make the response longer. */
function rounded(value: number): number {
  return Math.round(value * 1000) / 1000;
}

const refusalsListed = 100;

type Activity = OperationAnswer<'organisation.activity'>;
type FleetRefusal = OperationAnswer<'activity.get'>['refusals'][number];
type Caller = Activity['callers'][number];

/** Sums the refusals of one organisation, or of all, by type. */
function refusalsOf({ traffic }: Context, nowMs: number, of: string | undefined): FleetRefusal[] {
  const all = new Map<string, { readonly type: string; organisation?: string; refused: Refusals }>();
  const where = of === undefined ? {} : { organisation: of };
  for (const { row, isRest } of traffic.rows(nowMs, where)) {
    // The rest row does not say whose refusals it counts, so skip it. The response is marked as partial instead.
    if (row.refused === undefined || isRest) continue;
    const { organisation } = row;
    const named = organisation !== visitorsSubject && organisation !== undefined ? { organisation } : {};
    for (const [type, refused] of Object.entries(row.refused)) {
      const key = `${named.organisation ?? ''} ${type}`;
      all.set(key, { type, ...named, refused: addRefused(all.get(key)?.refused, refused) });
    }
  }
  return mostFirst(
    [...all.values()].map(({ type, organisation, refused: { status, requests, lastAtMs, lastRequest } }) => ({
      ...{ status, type, requests, lastAt: new Date(lastAtMs).toISOString(), lastRequest },
      ...(of === undefined && organisation !== undefined && { organisation }),
    })),
  );
}

function callersOf({ traffic }: Context, nowMs: number, of: string): Caller[] {
  const all = new Map<string, Caller>();
  for (const { report } of traffic.reports(nowMs))
    for (const { organisation, stack, surface, key, requests } of report.callers ?? []) {
      if (organisation !== of) continue;
      const name = `${stack} ${surface} ${key}`;
      all.set(name, { stack, surface, key, requests: requests + (all.get(name)?.requests ?? 0) });
    }
  return mostFirst([...all.values()]);
}

export function activityHandlers(
  context: Context,
): OperationHandlers<'organisation.activity' | 'activity.get'> {
  return {
    'organisation.activity': ({ params: { id }, request }) => {
      const { db } = context.snapshot;
      authorise(db, requestActor(request), readingRoles, () => id);
      if (!findOrganisation(db, id)) throw new CommandError('NotFound', `there is no organisation ${id}`);
      const nowMs = context.traffic.now();
      return {
        refusals: refusalsOf(context, nowMs, id),
        callers: callersOf(context, nowMs, id),
        ...howFar(context, nowMs),
      };
    },
    'activity.get': () => {
      const nowMs = context.traffic.now();
      return {
        refusals: refusalsOf(context, nowMs, undefined).slice(0, refusalsListed),
        ...howFar(context, nowMs),
      };
    },
  };
}

function mostFirst<Counted extends { readonly requests: number }>(counted: Counted[]): Counted[] {
  return counted.sort((a, b) => b.requests - a.requests);
}

/** Describes for which part of the last hour, and for which gateways, the counts are complete. */
function howFar(
  { snapshot, traffic, board }: Context,
  nowMs: number,
): Pick<Activity, 'since' | 'unanswered' | 'partial' | 'position'> {
  const isPartial = traffic
    .reports(nowMs)
    .some(({ report }) => report.rest !== undefined || report.otherCallers !== undefined);
  const unknown = board
    .gateways()
    .filter((seen) => seen.report.countsTraffic !== true || board.isSilent(seen));
  return {
    since: new Date(traffic.sinceMs(nowMs)).toISOString(),
    unanswered: [...new Set(unknown.map(({ report }) => report.name))],
    ...(isPartial && ({ partial: true } as const)),
    position: snapshot.seq,
  };
}
