/** What the gateways counted in the last hour, in steps, for plots: of the fleet, or of one organisation, stack, gateway or node. */
import type { AnswerOf, QueryOf } from '../../schemas/admin/admin.ts';
import { readingRoles } from '../../schemas/admin/admin-row.ts';
import { hourMs } from '../../schemas/durations.ts';
import { firstTokenBounds, ownTimeBounds } from '../../schemas/records/traffic.ts';
import { type Actor, authorise } from '../commands/authorise.ts';
import { quantileIn, type StepSums, TrafficSteps } from '../gateways/traffic-steps.ts';
import { findStack } from '../state/capacity.ts';
import { howFar } from './activity-route.ts';
import { type AdminContext, actorOf } from './context.ts';
import type { OperationHandlers } from './operations.ts';

const stepMs = 10_000;
/** After so long every gateway has reported what it counted. */
const reportedMs = 12_000;
/** What is now is the mean of so many steps. */
const stepsOfNow = 3;

type Answer = AnswerOf<'traffic.get'>;
type Step = Answer['steps'][number];

/** What the actor may read of what was asked for. A person reads the own organisation, and of its stacks its own requests. */
function readable(
  { snapshot: { db } }: AdminContext,
  actor: Actor,
  asked: QueryOf<'traffic.get'>,
): QueryOf<'traffic.get'> {
  if (actor.person === undefined) return asked;
  const { organisation, stack, gateway, node } = asked;
  const owner = stack === undefined ? organisation : findStack(db, stack)?.organisation;
  const isOthers = gateway !== undefined || node !== undefined || (organisation ?? owner) !== owner;
  authorise(db, actor, readingRoles, () => (isOthers ? undefined : owner));
  return { organisation: owner, stack };
}

export function trafficHandlers(context: AdminContext): OperationHandlers<'traffic.get'> {
  return {
    'traffic.get': ({ query, request }) => {
      const asked = readable(context, actorOf(request), query);
      const nowMs = context.traffic.now();
      const untilMs = Math.floor((nowMs - reportedMs) / stepMs) * stepMs;
      const { organisation, stack, gateway, node } = asked;
      // What is in flight, gateways count together.
      const isOfGateways = [organisation, stack, node].every((name) => name === undefined);
      const steps = new TrafficSteps({ untilMs, stepMs, steps: hourMs / stepMs });
      addAsked(steps, context, nowMs, asked);
      if (isOfGateways) addInFlight(steps, context, nowMs, gateway);
      return {
        ...{ stepSeconds: stepMs / 1000, until: new Date(untilMs).toISOString() },
        steps: steps.found().map(([endMs, step]) => stepOf(endMs, step, isOfGateways)),
        ...(isOfGateways && gateway === undefined && { nodes: nodesNow(context, nowMs, untilMs) }),
        ...howFar(context, nowMs),
      };
    },
  };
}

/** Of a node what it has answered, otherwise the rows with these names. */
function addAsked(
  steps: TrafficSteps,
  { traffic }: AdminContext,
  nowMs: number,
  { node, ...where }: QueryOf<'traffic.get'>,
): void {
  const found = node === undefined ? traffic.rows(nowMs, where) : traffic.nodes(nowMs, node);
  for (const counted of found) steps.add(counted, counted.row);
}

function addInFlight(
  steps: TrafficSteps,
  { traffic }: AdminContext,
  nowMs: number,
  gateway: string | undefined,
): void {
  for (const counted of traffic.reports(nowMs))
    if (gateway === undefined || gateway === counted.gateway)
      steps.addInFlight(counted, counted.report.inFlight);
}

function stepOf(endMs: number, step: StepSums, isOfGateways: boolean): Step {
  const firstTokenMs = quantilesOf(step.firstToken, firstTokenBounds);
  const ownTimeMs = quantilesOf(step.ownTime, ownTimeBounds);
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

/** Those that answer something now, the busiest first. */
function nodesNow({ traffic }: AdminContext, nowMs: number, untilMs: number): NonNullable<Answer['nodes']> {
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

function quantilesOf(counts: readonly number[], bounds: readonly number[]): Step['ownTimeMs'] {
  const [p50, p95] = [quantileIn(counts, bounds, 0.5), quantileIn(counts, bounds, 0.95)];
  return p50 === undefined || p95 === undefined ? undefined : { p50: rounded(p50), p95: rounded(p95) };
}

function perSecond(value: number, ms: number): number {
  return rounded(value / (ms / 1000));
}

/** Further decimals would only be sent. */
function rounded(value: number): number {
  return Math.round(value * 1000) / 1000;
}
