/** Usage of a request: its caller's earlier use is loaded before the decision, its own is recorded after the answer. */
import type { Capacity } from '../../schemas/records/usage.ts';
import type { Client } from '../../shared/decision/authenticate.ts';
import type { Decision, RequestFacts } from '../../shared/decision/decide.ts';
import type { ForwardOutcome } from '../nodes/forward.ts';
import type { UsageOwner } from '../usage/meter.ts';
import type { Gateway } from './gateway.ts';
import type { RequestRecord } from './request-record.ts';

/** The parts of a decision that the request's usage row contains. */
export interface MeteredDecision {
  readonly facts: RequestFacts;
  readonly decision: Decision;
  readonly capacity: Capacity;
}

/** The caller's usage must be known before the decision. Only a caller's first request in a while waits for it. */
export function loadUsage(
  { meter, logNow }: Gateway,
  { caller, target }: RequestFacts,
): true | Promise<boolean> {
  // Only the pool draws on an allowance.
  return target.kind === 'stack' || meter.loadTotal(usageOwner(caller), logNow());
}

/**
 * Records usage, but only of what was completed (Events). If a visitor stopped an answer, what its node had done by then counts
 * in what all visitors may use, and is no usage. Times are from the arrival of the request to the first byte of its answer and to
 * its end.
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
