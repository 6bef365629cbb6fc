/**
 * The changes that the golden decisions must notice: each switches off one refusal, one row of the tables of the design,
 * one boundary or one place in an order. A change is a replacement of text, so it fails loudly where the source moved on.
 */
import type { DecidingModule, Mutation } from './mutated-modules.ts';

type Change = readonly [rule: string, from: string, to: string];

function of(module: DecidingModule, changes: readonly Change[]): Mutation[] {
  return changes.map(([rule, from, to]) => ({ rule, module, from, to }));
}

const host: readonly Change[] = [
  [
    'host: an unknown host is refused',
    "throw new Refusal('unknown host', 'No such host",
    "return sharedTarget; ('No such host",
  ],
  ['host: the port is ignored', 'colon === -1 ? host : host.slice(0, colon)', 'host'],
  ['host: case is ignored', '.toLowerCase();', ';'],
  ['host: a last dot is ignored', "name.endsWith('.') ? name.slice(0, -1) : name", 'name'],
  [
    'host: only a label of stack shape names a stack',
    'if (stackIdSchema.safeParse(label).success)',
    'if (label)',
  ],
  ['host: the hostname selects the stack', "return { kind: 'stack', stack: label }", 'return sharedTarget'],
];

const operation: readonly Change[] = [
  [
    'operation: a method that a path does not take is refused',
    'isTaken ? operation : unknownOperation',
    'operation',
  ],
  [
    'operation: a model id is decoded',
    'decodeURIComponent(path.slice(modelPath.length))',
    'path.slice(modelPath.length)',
  ],
];

const authenticate: readonly Change[] = [
  ['authenticate: the scheme has any case', '/^bearer +([^\\s]+) *$/i', '/^[Bb]earer +([^\\s]+) *$/'],
  ['authenticate: the scheme is bearer', '/^bearer +([^\\s]+) *$/i', '/^[a-z]+ +([^\\s]+) *$/i'],
  [
    'authenticate: the checksum is checked before any look-up',
    "if (parsed === undefined) return 'malformed';\n    return lookup.keyOwner(hashKey(parsed))",
    'return lookup.keyOwner(hashKey(key as never))',
  ],
  ['authenticate: a revoked key is refused', "if (owner.revoked) return { fault: 'revoked', owner };", ''],
  [
    'authenticate: an expired key is refused',
    "if (owner.expiresAtMs !== null && owner.expiresAtMs <= nowMs) return { fault: 'expired', owner };",
    '',
  ],
  ['authenticate: a key ends at its moment', 'owner.expiresAtMs <= nowMs', 'owner.expiresAtMs < nowMs'],
  [
    'authenticate: a key holds until its moment',
    'owner.expiresAtMs <= nowMs',
    'owner.expiresAtMs - 1 <= nowMs',
  ],
  [
    'authenticate: x-api-key counts on a switched stack',
    ' ? found : undefined;',
    ' ? undefined : undefined;',
  ],
  [
    'authenticate: x-api-key counts only on a switched stack',
    "stack?.surface === 'anthropic' && ",
    'stack && ',
  ],
  [
    'authenticate: x-api-key counts only on a stack of its organisation',
    ' && stack.organisation === owner?.organisation ?',
    ' ?',
  ],
  [
    'authenticate: two different keys are refused',
    "throw unauthorized('two different keys', byHeader.keyId);",
    "return { kind: 'key', owner: byHeader };",
  ],
  ['authenticate: the same key may be sent twice', 'bearer === credentials.xApiKey?.trim()', 'false'],
  [
    'authenticate: what does not count is as if absent',
    'const byHeader = acceptXApiKey',
    "if (credentials.xApiKey) throw unauthorized('unknown');\n  const byHeader = acceptXApiKey",
  ],
  [
    'authenticate: all causes have one answer',
    'new Refusal(cause, unauthorizedMessage,',
    'new Refusal(cause, cause,',
  ],
  [
    'fenced: a mistyped credential has the answer of a good one',
    'if (authorization !== undefined && !/^(bearer)?\\s*$/i.test(authorization)) return true;',
    'if (authorization !== undefined && parseKey(bearerKey(authorization) ?? "")) return true;',
  ],
  ['fenced: a scheme alone is no credential', ' && !/^(bearer)?\\s*$/i.test(authorization)', ''],
  [
    'fenced: x-api-key is a credential on a stack host',
    "return target.kind === 'stack' && xApiKey !== undefined",
    'return false && xApiKey !== undefined',
  ],
  [
    'fenced: x-api-key is a credential on a stack host only',
    "return target.kind === 'stack' && xApiKey !== undefined",
    'return xApiKey !== undefined',
  ],
];

const admission: readonly Change[] = [
  [
    'admission: everything on a stack host needs a key',
    "return target.kind === 'stack' || !isListing",
    'return !isListing',
  ],
  ['admission: the public listing needs none', '!isListing(operation)', 'true'],
  [
    'admission: one model of the public listing needs none',
    '!isListing(operation)',
    "!(operation.kind === 'models')",
  ],
  ['admission: completions on the shared host need a key', '!isListing(operation)', 'false'],
  [
    'admission: an unknown path is refused',
    "if (operation.kind === 'unknown') throw",
    'if (!operation) throw',
  ],
  [
    'admission: the key precedes the unknown path',
    '  const caller = identify(',
    "  if (operation.kind === 'unknown') throw new Refusal('no such path', '');\n  const caller = identify(",
  ],
  ['fenced: no key is looked up', 'if (!fenced) {', 'if (target) {'],
  [
    'fenced: whatever carries a credential gets one answer',
    'if (carriesCredential(target, head)) refuse',
    'if (!head) refuse',
  ],
  [
    'fenced: what carries none is refused as ever',
    "else refuse(trace, unauthorized('fenced without a key'))",
    "else refuse(trace, cannotTakeNow('fenced'))",
  ],
  ['a visitor is looked for on the shared host', 'isVisitor ? sharedTarget :', ''],
];

const decide: readonly Change[] = [
  ['fenced: asked again before the decision', "if (fenced) refuse(trace, cannotTakeNow('fenced'));\n", ''],
  ['the outbox is full', "if (outboxFull) refuse(trace, cannotTakeNow('outbox full'));", ''],
  [
    'the outbox is asked before plan, limits and routing',
    '  if (outboxFull) refuse(trace,',
    '  decide(lookup, counters, facts, nowMs);\n  if (outboxFull) refuse(trace,',
  ],
  [
    'plan: a suspended organisation has none',
    'caller.owner.suspended ? null : caller.owner.tier',
    'caller.owner.tier',
  ],
  [
    'plan: without one everything is refused',
    'const tier = tierOf(lookup, caller);',
    'const tier = tierOf(lookup, caller) ?? (lookup.anonymousTier() as Tier);',
  ],
  [
    'context: what is asked for counts',
    'return facts.promptTokens + answerNeeded(facts.maxTokens)',
    'return facts.promptTokens',
  ],
  ['context: one token where nothing is asked', 'return maxTokens ?? 1', 'return maxTokens ?? 0'],
  ['allowance: pinned requests never draw on it', "if (facts.target.kind === 'stack') return false;", ''],
  [
    "allowance: an organisation's own nodes never draw on it",
    "return placement.capacity === 'pool'",
    "return placement.capacity !== 'stack'",
  ],
  [
    'allowance: it is asked where the pool would answer',
    "return placement.capacity === 'pool'",
    'return false',
  ],
  [
    'allowance: the path of the other surface never reaches the pool',
    "facts.surface !== 'anthropic' && ",
    '',
  ],
  ['allowance: only a pooled model draws on it', 'lookup.isPooled(facts.model) && ', ''],
  ['allowance: only a model of the plan draws on it', ' && lookup.tierIncludes(tier.id, facts.model)', ''],
  [
    'allowance: it is asked where nobody answers now',
    "facts.surface !== 'anthropic' && lookup",
    'false && lookup',
  ],
  ['allowance: tokens are counted', 'used: counters.poolTokens(organisation, anchor, nowMs)', 'used: 0'],
  ['allowance: free turns are counted', 'used: counters.freeTurns(visitor, admittedMs)', 'used: 0'],
  [
    'allowance: visitors have turns, not tokens',
    "{ kind: 'turns', used: counters.freeTurns(visitor, admittedMs) }",
    "{ kind: 'tokens', used: 0 }",
  ],
  ['allowance: the next tier is named', 'lookup.nextTier(tier.rank, tier.monthlyTokens)', 'undefined'],
  [
    'limits: each organisation is counted alone',
    'const subject = subjectOf(caller);',
    "const subject = facts ? 'all' : subjectOf(caller);",
  ],
  [
    'limits: a model counts as at most all that the tier carries',
    'weightWithin(modelWeight, tier.concurrency)',
    'modelWeight',
  ],
  ["limits: a model's weight counts", ': lookup.weight(model);', ': 1;'],
  [
    'limits: a model of others weighs 1 where it is refused',
    'placement instanceof Refusal && !lookup.isPooled(model) ? 1 :',
    '',
  ],
  [
    'limits: a pooled model that is refused weighs what it weighs',
    'placement instanceof Refusal && !lookup.isPooled(model) ? 1 :',
    'placement instanceof Refusal ? 1 :',
  ],
  ['context: a lower bound refuses', 'promptTokensLeast ?? promptTokens', 'promptTokens * 0'],
  ['context: an upper bound refuses nothing', 'promptTokensLeast ?? promptTokens', 'promptTokens'],
  ['context: a lower bound is called one', 'atLeast: promptTokensLeast !== undefined', 'atLeast: false'],
  [
    'limits: they act before routing refuses',
    '  checkLimits(limits, counters, nowMs, trace);',
    '  if (!(placement instanceof Refusal)) checkLimits(limits, counters, nowMs, trace);',
  ],
  [
    'limits: they act where routing refuses nothing',
    '  checkLimits(limits, counters, nowMs, trace);',
    '  if (placement instanceof Refusal) checkLimits(limits, counters, nowMs, trace);',
  ],
  [
    'limits: a request that is refused by routing counts',
    '  return { placement, tier',
    '  if (placement instanceof Refusal) throw placement;\n  return { placement, tier',
  ],
];

const limits: readonly Change[] = [
  ['ContextWindowExceededError', 'check: checkContext,', 'check: () => undefined,'],
  ['InferenceUpsellError', 'check: checkAllowance,', 'check: () => undefined,'],
  ['InferenceRateLimitedError', "  rate('requests', own),\n", ''],
  ['InferenceConcurrencyLimitedError', "  concurrency('concurrency', own),\n", ''],
  ['order: context before allowance', 'of limits)', 'of [1, 0, 4, 5].map((at) => limits[at]))'],
  ['order: allowance before rate', 'of limits)', 'of [0, 4, 1, 5].map((at) => limits[at]))'],
  ['order: rate before concurrency', 'of limits)', 'of [0, 1, 5, 4].map((at) => limits[at]))'],
  [
    'context: what just fits passes',
    'contextTokens <= tier.contextTokens',
    'contextTokens < tier.contextTokens',
  ],
  [
    'context: no limit is no limit',
    'tier.contextTokens === null || contextTokens <= tier.contextTokens',
    'contextTokens <= Number(tier.contextTokens)',
  ],
  ['context: the tier is named', '{tier.id} tier allows', "{''} tier allows"],
  [
    'allowance: used up at its number',
    'allowance.used < tier.monthlyTokens',
    'allowance.used <= tier.monthlyTokens',
  ],
  [
    'allowance: not used up before',
    'allowance.used < tier.monthlyTokens',
    'allowance.used + 1 < tier.monthlyTokens',
  ],
  [
    'allowance: free turns used up at their number',
    'allowance.used >= tier.freeTurns',
    'allowance.used > tier.freeTurns',
  ],
  [
    'allowance: free turns not used up before',
    'allowance.used >= tier.freeTurns',
    'allowance.used + 1 >= tier.freeTurns',
  ],
  ['allowance: visitors are asked to sign in', 'tier are used up. Sign in to continue.', 'tier are used up.'],
  [
    'allowance: the top tier is asked to contact the operator',
    "'Contact the service operator for more.'",
    "''",
  ],
  ['rate: as many as the tier carries', 'window.used < limit', 'window.used <= limit'],
  ['rate: not fewer than the tier carries', 'window.used < limit', 'window.used + 1 < limit'],
  ['rate: Retry-After is rounded up', 'Math.ceil((window.endsAtMs', 'Math.floor((window.endsAtMs'],
  ['rate: Retry-After is the remainder of the window', '(window.endsAtMs - nowMs) / 1000', '60'],
  ['rate: Retry-After is sent', '{ retryAfterSeconds, exhausted', '{ exhausted'],
  ['concurrency: as many as the tier carries', '+ weight <= limit', '+ weight < limit'],
  ['concurrency: weights count', 'limit, weight) + weight', 'limit, weight) + 1'],
  ['concurrency: the message says what a model counts', '${countsText(facts, weight)}', ''],
  ['concurrency: Retry-After is one second', 'retryAfterSeconds: 1,', 'retryAfterSeconds: 2,'],
];

const windows: readonly Change[] = [
  [
    'windows: each has a phase of its own',
    'const offset = ((phase ^ (phase >>> 16)) >>> 0) % windowMs',
    'const offset = 0',
  ],
  ['windows: a minute', 'export const windowMs = 60_000', 'export const windowMs = 61_000'],
];

const route: readonly Change[] = [
  ['stack host: a foreign stack is refused', '!stack || stack.organisation !== facts.organisation', '!stack'],
  [
    'stack host: a missing stack is as a foreign one',
    "const refusal = targetNotServing(stack ? 'foreign stack' : 'no such stack')",
    "const refusal = stack ? targetNotServing('foreign stack') : dedicatedOnly('no pool')",
  ],
  ['stack host: all causes have one answer', "'This stack does not serve the requested model.'", 'cause'],
  [
    'stack host: the path of the other surface is refused',
    "if (facts.surface !== 'any' && facts.surface !== stack.surface) {",
    'if (!facts) {',
  ],
  ['stack host: embeddings stand on every surface', "facts.surface !== 'any' && ", ''],
  [
    'stack host: ownership before surface',
    '  if (!stack || stack.organisation',
    "  if (stack && facts.surface !== 'any' && facts.surface !== stack.surface) return wrongSurface();\n  if (!stack || stack.organisation",
  ],
  [
    'stack host: surface before serving',
    "if (facts.surface !== 'any' && facts.surface",
    "if (lookup.routes('stack:' + stackId, facts.model).length > 0 && facts.surface !== 'any' && facts.surface",
  ],
  [
    'stack host: never retried at the pool',
    ": targetNotServing('not serving')",
    ': routeShared(lookup, facts, trace)',
  ],
  [
    'stack host: served by that stack',
    "{ capacity: 'stack', candidates } :",
    'routeShared(lookup, facts, trace) :',
  ],
  ['shared host: messages are refused', "if (facts.surface === 'anthropic') {", 'if (!facts) {'],
  [
    'shared host: an own node wins',
    'if (own.length > 0)',
    'if (own.length > 0 && !lookup.isPooled(facts.model))',
  ],
  [
    'shared host: an own node serves what no pool has',
    'if (own.length > 0)',
    'if (own.length > 0 && lookup.isPooled(facts.model))',
  ],
  [
    'shared host: an own node is no matter of the plan',
    'if (own.length > 0)',
    'if (own.length > 0 && lookup.tierIncludes(String(facts.tier), facts.model))',
  ],
  [
    "shared host: only the organisation's own nodes",
    'lookup.routes(`organisation:$',
    "lookup.routes('organisation:acme' || `organisation:$",
  ],
  ['DedicatedOnlyModelError', 'if (!lookup.isPooled(facts.model)) {', 'if (!facts) {'],
  [
    'DedicatedOnlyModelError comes before the plan',
    'if (!lookup.isPooled(facts.model)) {',
    'if (!lookup.isPooled(facts.model) && lookup.tierIncludes(String(facts.tier), facts.model)) {',
  ],
  ['an own node that is away is an outage', 'ownNodeAway(lookup, facts) ?? dedicatedOnly(', 'dedicatedOnly('],
  [
    'an own node that is away is an outage for its organisation only',
    'lookup.loadedLast(`organisation:$',
    "lookup.loadedLast('organisation:acme' || `organisation:$",
  ],
  [
    'an own node that is away does not hide the pool',
    'if (!lookup.isPooled(facts.model)) {',
    'if (ownNodeAway(lookup, facts) || !lookup.isPooled(facts.model)) {',
  ],
  [
    'ModelNotInPlanError',
    'if (facts.tier === null || !lookup.tierIncludes(facts.tier, facts.model)) {',
    'if (!facts) {',
  ],
  [
    'ModelNotInPlanError comes before InferenceUnavailableError',
    "const refusal = notInPlan('model not in plan');",
    "const refusal = lookup.routes('pool', facts.model).length > 0 ? notInPlan('model not in plan') : unavailable('no node answers');",
  ],
  ['InferenceUnavailableError', ": unavailable('no node answers')", ": dedicatedOnly('no pool')"],
];

const models: readonly Change[] = [
  ['listing: a foreign stack is refused', ' || stack.organisation !== caller.owner.organisation', ''],
  ['listing: the shared host lists the pool', "return 'pool'", "return 'organisation:acme'"],
  ['listing: a stack host lists that stack', 'return `stack:$', "return 'pool'; `stack:$"],
  [
    'listing: what is not there is refused in the words of its host',
    "if (target.kind === 'stack') throw targetNotServing('not listed by the stack');",
    '',
  ],
  [
    'listing: a stack lists nothing to an organisation without a plan',
    'isEntitled(caller) ? lookup',
    'caller ? lookup',
  ],
  [
    'listing: one model is refused for want of a plan',
    "if (operation.kind === 'model' && !isEntitled(caller)) throw notInPlan('not listed without a plan');",
    '',
  ],
  [
    'listing: a pooled model without a node is away, not absent',
    'throw lookup.isPooled(operation.model)',
    'throw !lookup',
  ],
];

const statuses: readonly (readonly [type: string, status: number])[] = [
  ['Unauthorized', 401],
  ['UnsupportedShapeError', 400],
  ['InferenceUnavailableError', 503],
  ['ModelNotInPlanError', 403],
  ['DedicatedOnlyModelError', 404],
  ['TargetNotServingError', 404],
  ['InferenceUpsellError', 409],
  ['ContextWindowExceededError', 413],
  ['InferenceRateLimitedError', 429],
  ['InferenceConcurrencyLimitedError', 429],
  ['NotFoundError', 404],
];

export const mutations: readonly Mutation[] = [
  ...of('shared/decision/admission.ts', host),
  ...of('shared/decision/admission.ts', operation),
  ...of('shared/decision/authenticate.ts', authenticate),
  ...of('shared/decision/admission.ts', admission),
  ...of('shared/decision/decide.ts', decide),
  ...of('shared/decision/limits.ts', limits),
  ...of('shared/decision/decide.ts', windows),
  ...of('shared/decision/route.ts', route),
  ...of('shared/decision/model-listing.ts', models),
  ...of(
    'schemas/refusals.ts',
    statuses.map(([type, status]) => [
      `registry: the status of ${type}`,
      `${type}: { status: ${status}`,
      `${type}: { status: ${status + 1}`,
    ]),
  ),
];
