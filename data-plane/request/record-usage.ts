/** Loads the caller's previous usage before the decision, and records the request's own usage after the response. */
import type { Capacity } from '../../schemas/records/usage.ts';
import type { Client } from '../../shared/decision/authenticate.ts';
import type { Decision, RequestFacts } from '../../shared/decision/decide.ts';
import type { ForwardOutcome } from '../nodes/forward.ts';
import type { UsageOwner } from '../usage/meter.ts';
import type { Gateway } from './gateway.ts';
import type { RequestRecord } from './request-record.ts';

/** Facts about a decision that its usage row contains. */
export interface MeteredDecision {
  readonly facts: RequestFacts;
  readonly decision: Decision;
  readonly capacity: Capacity;
}

/** Loads the caller's usage for the decision. A caller's first request in a while has to wait for the usage worker. */
export function loadUsage(
  { meter, logNow }: Gateway,
  { caller, target }: RequestFacts,
): true | Promise<boolean> {
  // Only requests to the pool count against an allowance.
  return target.kind === 'stack' || meter.loadTotal(usageOwner(caller), logNow());
}

/**
 * Records the usage of a completed request (specification, Events). For an incomplete answer to a visitor, records the tokens
 * spent so far, which count only in the total of all visitors. Durations start at the arrival of the request.
 */
export function recordUsage(
  gateway: Gateway,
  { ids, startMs, at }: RequestRecord,
  { facts: { caller, target, model }, decision: { tier, total }, capacity }: MeteredDecision,
  outcome: ForwardOutcome,
): void {
  const isCompleted = outcome.kind === 'completed';
  const used = isCompleted ? outcome.usage : caller.kind === 'anonymous' ? outcome.spent : undefined;
  if (used === undefined) return;
  gateway.meter.record({
    owner: usageOwner(caller),
    unfinished: isCompleted ? undefined : true,
    capacity,
    model,
    stack: target.kind === 'stack' ? target.stack : undefined,
    promptTokens: used.promptTokens,
    completionTokens: used.completionTokens,
    estimated: used.estimated,
    requestId: ids.requestId,
    monthlyTokens: tier.monthlyTokens,
    tokensPerDay: total?.tokensPerDay ?? null,
    ttftMs: at.begun === undefined ? undefined : at.begun - startMs,
    durationMs: performance.now() - startMs,
    atMs: gateway.logNow(),
  });
}

function usageOwner(caller: Client): UsageOwner {
  return caller.kind === 'key' ? caller.owner : caller;
}
