/**
 * Tests the text of each step for decision records as gateways write them, with numbers from several gateways and with
 * refusals that do not come from the rules alone. A record on stdin (`explain --request -`) must be explained like a record
 * that a gateway keeps.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { DecisionRecord } from '../../schemas/records/decisions.ts';
import { explanationSchema } from '../../schemas/records/explanations.ts';
import { causeNames, causes, causeText } from '../../shared/decision/causes.ts';
import type { StepName } from '../../shared/decision/step.ts';
import { chat } from '../support/api.ts';
import { startFleet, type TestFleet } from '../support/fleet.ts';
import { specFleet, stacks } from '../support/spec-fleet.ts';

let fleet: TestFleet;
let served: DecisionRecord;
beforeAll(async () => {
  fleet = await startFleet({ fleet: specFleet });
  const limits = { requestsPerMinute: 12, concurrency: 6, contextTokens: 900, monthlyTokens: 500 };
  await fleet.admin.call('PUT', '/tiers/Near', { rank: 50, models: '*', ...limits });
  await fleet.admin.call('PATCH', '/organisations/cedar', { tier: 'Near' });
  const total = { requestsPerMinute: 20, concurrency: 3, tokensPerDay: 100 };
  const own = { freeTurns: 5, networkFactor: 2, requestsPerMinute: 4, concurrency: 2 };
  await fleet.admin.call('PUT', '/anonymous', { models: ['echo-small'], ...own, total });
  const { value: key } = await fleet.key('cedar');
  await fleet.settle();
  const answer = await chat({ port: fleet.port(), key, model: 'echo-small', more: { max_tokens: 7 } });
  expect(answer.status).toBe(200);
  const found = await fleet.admin.call('GET', `/decisions/${answer.fields['x-request-id'] ?? ''}`);
  served = found.decision as DecisionRecord;
});
afterAll(() => fleet.close());

type Change = Partial<Omit<DecisionRecord, 'counters'>> & { readonly counters?: object };

/** Explains the served record with these changes. Returns the steps by name. */
async function stepsOf(change: Change): Promise<Record<string, { result: string; text: string }>> {
  const record = { ...served, ...change, counters: { ...served.counters, ...change.counters } };
  const found = explanationSchema.parse(
    await fleet.admin.call('POST', '/explain', { record: JSON.parse(JSON.stringify(record)) }),
  );
  return Object.fromEntries(found.steps.map(({ step, result, text }) => [step, { result, text }]));
}

const requests = { here: 3, elsewhere: 2, held: 5, room: 4 };
const concurrency = { here: 1, elsewhere: 2, held: 2, room: 3 };
const visitor: Change = {
  visitor: 'v-1',
  ...{ key: undefined, organisation: undefined, header: undefined },
};
const visitors = { windowUsed: 15, inFlight: 2, tokens: 60, requests: { ...requests, held: 7 }, concurrency };

/** Each row contains a step's name, a change to the record, and the text expected for the step. */
const numbers: readonly (readonly [step: string, change: Change, text: string])[] = [
  [
    'requests',
    { counters: { requests, windowUsed: 8 } },
    '5 of 12 in this minute: 3 at this gateway, 2 at others (which hold 5); room for 4 more at this gateway',
  ],
  [
    'requests',
    { counters: { requests: { ...requests, held: 2 }, windowUsed: 8 } },
    '5 of 12 in this minute: 3 at this gateway, 2 at others; room for 4 more at this gateway',
  ],
  [
    'requests',
    { counters: { requests: { here: 3, room: 9 }, windowUsed: 3 } },
    '3 in this minute at this gateway, limit 12',
  ],
  // A record in the format of earlier gateway versions.
  [
    'requests',
    { counters: { requests: undefined, windowUsed: 8 } },
    'room for 4 more at this gateway, limit 12',
  ],
  [
    'concurrency',
    { counters: { concurrency, inFlight: 3 } },
    '3 of 6 in flight: 1 at this gateway, 2 at others; room for 3 more at this gateway, this one counts as 1',
  ],
  [
    'concurrency',
    { model: 'echo-large', counters: { concurrency: { ...concurrency, held: 3, room: 5 }, inFlight: 1 } },
    '3 of 6 in flight: 1 at this gateway, 2 at others (which hold 3); room for 5 more at this gateway, this one counts as 4',
  ],
  [
    'context',
    { promptTokensMax: 100, counted: 'bound', maxTokens: 7 },
    'at most 107 tokens (100 for the prompt, 7 for the answer), limit 900',
  ],
  [
    'context',
    { promptTokensMax: 100, counted: 'node', maxTokens: 7 },
    '107 tokens (100 for the prompt, 7 for the answer), limit 900',
  ],
  [
    'context',
    { promptTokensMax: 100, counted: 'node', maxTokens: undefined },
    '101 tokens (100 for the prompt, 1 for the answer), limit 900',
  ],
  [
    'context',
    { promptTokensMax: 2000, promptTokensLeast: 50, counted: 'bound', maxTokens: 7 },
    'at least 57 tokens (50 for the prompt, 7 for the answer), limit 900',
  ],
  [
    'allowance',
    { counters: { poolTokens: 321 } },
    '321 tokens count against the allowance of this period, limit 500',
  ],
  [
    'allowance',
    { counters: { poolTokens: 1 } },
    '1 token counts against the allowance of this period, limit 500',
  ],
  [
    'allowance',
    { ...visitor, counters: { freeTurns: 3, networkTurns: 7, visitors } },
    '3 turns used this month, limit 5',
  ],
  [
    'network allowance',
    { ...visitor, counters: { networkTurns: 7, visitors } },
    '7 turns used by the network today, limit 10',
  ],
  [
    'visitor tokens',
    { ...visitor, counters: { networkTurns: 7, visitors } },
    '60 tokens used by all visitors today, limit 100',
  ],
  [
    'visitor requests',
    { ...visitor, counters: { networkTurns: 7, visitors: { ...visitors, windowUsed: 16 } } },
    '5 of 20 in this minute from all visitors: 3 at this gateway, 2 at others (which hold 7); room for 4 more at this gateway',
  ],
  [
    'visitor concurrency',
    { ...visitor, counters: { networkTurns: 7, visitors: { ...visitors, inFlight: 0 } } },
    '3 of 3 in flight from all visitors: 1 at this gateway, 2 at others; room for 3 more at this gateway, this one counts as 1',
  ],
];

test.each(numbers)('the figures of %s match the record: %#', async (step, change, text) => {
  expect((await stepsOf(change))[step]).toEqual({ result: 'ok', text });
});

const refusedBy = (stage: DecisionRecord['stage'], type: string, reason: string): Change => ({
  ...{ stage, type, reason, message: 'no', served: false, status: 503 },
});
/** Refusals that do not come from the rules: one for each of their causes, and one for a call of the playground. */
const refusals: readonly (readonly [cause: string, step: StepName, change: Change, text: string | null])[] = [
  ...causeNames
    .filter((name) => causes[name].stage !== 'admission')
    .map((name) => {
      const { step, stage, type, says } = causes[name];
      return [name, step, refusedBy(stage, type, causeText(name, 'status 500')), says] as const;
    }),
  ...([
    ['unknown key', 'http', refusedBy('http', 'Unauthorized', 'unknown'), 'the key is not accepted'],
    [
      'another build',
      'answer',
      refusedBy('answer', 'LaterError', ''),
      'refused for a cause that this build does not know',
    ],
  ] as const),
];

test.each(refusals)('a refusal for %s gives the reason', async (_cause, step, change, text) => {
  expect((await stepsOf(change))[step]).toEqual({ result: 'refused', text });
});

const noKey = (fault: DecisionRecord['fault']): Change => ({
  ...refusedBy('admission', 'Unauthorized', fault ?? ''),
  ...{ fault, key: undefined, header: undefined, organisation: undefined, status: 401 },
});
const outboxFull = refusedBy('admission', 'InferenceUnavailableError', 'outbox full');
const rules: readonly (readonly [step: string, change: Change, text: string])[] = [
  ['key', noKey('missing'), 'no key was sent'],
  ['key', noKey('malformed'), 'the credential does not have the form of a key'],
  ['key', noKey('unknown'), 'the key is unknown'],
  [
    'key',
    { ...noKey('two different keys'), host: 'stack', stack: stacks.heron },
    'two different keys were sent',
  ],
  ['usage', { ...outboxFull, outboxFull: true }, 'usage could not be recorded'],
  [
    'listing',
    { operation: 'models', model: undefined, host: 'stack', stack: stacks.otter },
    'the organisation has no such stack',
  ],
  ['listing', { operation: 'model', model: 'echo-idle' }, 'this host does not list the model'],
];

test.each(rules)('a rule’s refusal at %s gives the reason: %#', async (step, change, text) => {
  expect((await stepsOf(change))[step]).toEqual({ result: 'refused', text });
});

test('if a node counted the prompt, all limits were read first, even if the prompt did not fit', async () => {
  const message = 'This request needs a context of 1007 tokens; the Near tier allows 900.';
  const steps = await stepsOf({
    ...{
      promptTokensMax: 1000,
      counted: 'node',
      maxTokens: 7,
      served: false,
      status: 413,
      stage: 'admission',
    },
    ...{ type: 'ContextWindowExceededError', message, node: undefined, capacity: undefined },
    counters: { requests, concurrency, windowUsed: 8, inFlight: 3 },
  });
  expect(steps['context']).toEqual({
    result: 'refused',
    text: '1,007 tokens (1,000 for the prompt, 7 for the answer), limit 900',
  });
  expect([steps['requests']?.result, steps['concurrency']?.result]).toEqual(['ok', 'ok']);
});
