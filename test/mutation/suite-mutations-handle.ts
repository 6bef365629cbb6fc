/** Mutations of the control flow of a request, its admission, its reservation, and the answer to a refused one. */
import { mutationsOf as of, type SuiteMutation } from './suite-runner.ts';

const asLimits = ['test/spec/limits.test.ts'];
const asDecided = ['test/replay/decide.test.ts'];
const asAdmission = ['test/spec/admission.test.ts'];
const asEvents = ['test/spec/events.test.ts'];
const asErrors = ['test/spec/errors.test.ts'];
const asLive = ['test/replay/live-order.test.ts'];

export const handleMutations: readonly SuiteMutation[] = [
  ...of(
    'data-plane/request/handle.ts',
    ['test/spec/affinity.test.ts'],
    [
      [
        'only the pool has salts',
        "placement.capacity === 'pool' ? gateway.cacheSalts?.of(decision.subject) : undefined",
        'gateway.cacheSalts?.of(decision.subject)',
        'needs no salt',
      ],
      [
        'each tenant has a salt',
        'gateway.cacheSalts?.of(decision.subject)',
        "gateway.cacheSalts?.of('')",
        'makes nothing faster',
      ],
    ],
  ),
  ...of(
    'data-plane/request/choose-node.ts',
    ['test/spec/affinity.test.ts'],
    [['affinity can be switched off', ' || !lookup.hasAffinity(model)', '', 'without regard to the prompt']],
  ),
  ...of('shared/decision/admission.ts', asLimits, [
    [
      'a stale snapshot proves no key',
      'if (!fenced) {',
      'if (nowMs > 0) {',
      'last proof of freshness is old',
    ],
  ]),
  ...of('shared/decision/decide.ts', asDecided, [
    [
      'a request is refused while no usage can be recorded',
      "  if (outboxFull) refuse(trace, cannotTakeNow('outbox full'));\n",
      '',
    ],
    ['a stale snapshot decides nothing', "  if (fenced) refuse(trace, cannotTakeNow('fenced'));\n", ''],
  ]),
  ...of('data-plane/request/token-budget.ts', asLimits, [
    [
      'a proof that aged while the prompt was counted holds no longer',
      "  if (gateway.fenced()) throw cannotTakeNow('fenced');\n",
      '',
      'a proof that ages',
    ],
  ]),
  ...of('data-plane/request/reserve.ts', asLimits, [
    [
      'freshness is checked again with the body',
      'fenced: gateway.fenced(), outboxFull',
      'fenced: false, outboxFull',
      'a proof that ages',
    ],
    [
      'a heavy model takes its weight',
      'gateway.counters.reserve(counted, weight, nowMs, tier)',
      'gateway.counters.reserve(counted, 1, nowMs, tier)',
      'by their weights',
    ],
  ]),
  ...of(
    'shared/decision/decide.ts',
    ['shared/decision/decide.test.ts'],
    [
      [
        'a prompt that may not fit is to be counted',
        'return { placement, tier, subject, counted, weight, uncounted, ...total };',
        'return { placement, tier, subject, counted, weight, uncounted: false, ...total };',
      ],
      [
        'a prompt that fits is not to be counted',
        'return { placement, tier, subject, counted, weight, uncounted, ...total };',
        'return { placement, tier, subject, counted, weight, uncounted: true };',
      ],
      [
        'a prompt that just fits is not to be counted',
        'contextNeeded(facts) > (tier',
        'contextNeeded(facts) >= (tier',
      ],
    ],
  ),
  ...of('data-plane/request/token-budget.ts', asAdmission, [
    ['a prompt that may not fit is counted', 'decision.uncounted || ', '', 'however little of an answer'],
    [
      'a prompt that no engine can count is not refused for that',
      '  if (tokens === undefined) return',
      "  if (tokens === undefined) throw cannotTakeNow('uncounted');\n  if (tokens === 0) return",
      'no engine can count',
    ],
    [
      'a prompt that no engine can count is not judged by its bytes',
      '  if (tokens === undefined) return { tokens: asked.likelyTokens, candidates, budgetFor: bounds };\n  try {\n    checkContext({ tier, contextTokens: contextNeeded({ promptTokens: tokens, maxTokens }) });',
      '  try {\n    checkContext({ tier, contextTokens: contextNeeded({ promptTokens: tokens ?? asked.promptBytes, maxTokens }) });',
      'no engine can count',
    ],
    [
      'what the count refuses takes nothing of the minute',
      'lease.cancel(tier.requestsPerMinute);',
      'lease.release();',
      'what the count refuses',
    ],
    ['what the count refuses is refused', '    throw refusal;\n', '', 'what the count refuses'],
  ]),
  ...of('data-plane/request/handle.ts', asLimits, [
    ['a place is released', '    lease.release();\n', '', 'refused by routing releases'],
    [
      'freshness is checked before the key',
      '{ fenced: gateway.fenced(), nowMs',
      '{ fenced: false, nowMs',
      'last proof of freshness is old',
    ],
    [
      'a key is looked up again after a slow body',
      'ageMs > acceptedMsMax || ',
      'ageMs < 0 || ',
      'revoked while the body',
    ],
  ]),
  ...of('data-plane/request/handle.ts', asLive, [
    [
      'the key comes before a full outbox',
      '  const acceptedMs = gateway.now();\n',
      "  if (gateway.meter.isFull) throw cannotTakeNow('outbox full');\n  const acceptedMs = gateway.now();\n",
    ],
    [
      'the shape of a body comes before a full outbox',
      '  record.at.read = performance.now();\n',
      "  if (gateway.meter.isFull) throw cannotTakeNow('outbox full');\n",
    ],
    [
      'where the usage of the caller cannot be loaded, a request is refused',
      "  if (isLoaded !== true && !(await isLoaded)) throw cannotTakeNow('usage unknown');\n",
      '  await isLoaded;\n',
    ],
    [
      'limits are asked once it is known what the caller has used',
      "  if (isLoaded !== true && !(await isLoaded)) throw cannotTakeNow('usage unknown');\n  const reserved = reserveOrWait(gateway, facts, exchange, record.seen);\n",
      "  const reserved = reserveOrWait(gateway, facts, exchange, record.seen);\n  if (isLoaded !== true && !(await isLoaded)) throw cannotTakeNow('usage unknown');\n",
    ],
    [
      'a pinned request does not wait for what its caller has used',
      "  if (target.kind === 'stack') return true;\n",
      '',
    ],
  ]),
  ...of('data-plane/request/handle.ts', asEvents, [
    [
      'only what was completed is recorded',
      'isVisitor ? outcome.spent : undefined',
      'outcome.spent',
      'its client cancels',
    ],
    [
      'what was completed is recorded',
      '    meter(gateway, record, facts, billed, outcome);\n',
      '',
      'a completed stream is recorded once',
    ],
    [
      'usage has the tokens of the prompt',
      'promptTokens: used.promptTokens',
      'promptTokens: 0 * used.promptTokens',
      'a completed stream is recorded once',
    ],
    [
      'usage has the tokens of the answer',
      'completionTokens: used.completionTokens',
      'completionTokens: 0 * used.completionTokens',
      'a completed stream is recorded once',
    ],
  ]),
  ...of('data-plane/request/handle.ts', asAdmission, [
    [
      'a refusal of routing is thrown',
      '      throw placement;',
      '      return;',
      'Errors 5, Errors 6, Errors 10: with 0',
    ],
  ]),
  ...of('data-plane/http/answers.ts', asErrors, [
    [
      'what must not be retried is marked so',
      "if (refusalKinds[refusal.type].retry === 'never')",
      'if (refusal.type === undefined)',
      'Errors 1: a key that is not accepted',
    ],
    [
      'a refusal of a limit has the time to wait',
      'if (refusal.retryAfterSeconds !== undefined)',
      'if (refusal.retryAfterSeconds === -1)',
      'Errors 9: more requests',
    ],
    ['every answer has its request id', '[...idFields(ids)]', '[]', 'Errors 1: a key that is not accepted'],
  ]),
];
