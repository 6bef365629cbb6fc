/**
 * Explanations are true on real processes: random requests of all kinds go to two gateways that share limits, some of them
 * held in flight; each is explained, and each step is compared with what was sent, what came back and what the test counted.
 * HEADGATE_EXPLAINED sets the number of requests, HEADGATE_EXPLAINED_SEED which ones.
 */
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { LimitUse, UsageTotals } from '../../schemas/admin.ts';
import { type Explanation, explanationSchema } from '../../schemas/explanations.ts';
import { visitorsSubject } from '../../schemas/limits.ts';
import { stepNames } from '../../shared/decision/steps.ts';
import { scaledMs } from '../support/budget.ts';
import { gatewayToken, operatorToken } from '../support/process-fleet.ts';
import { runCli } from '../support/run-cli.ts';
import { until } from '../support/until.ts';
import { type Asked, asked } from './asked.ts';
import { nodeFaults, organisations, stacks, tierOf, tiers, visitorLimits } from './explained-fleet.ts';
import { ExplainedTraffic, turnOf } from './explained-traffic.ts';
import { listed, reached } from './step-oracle.ts';

const count = Number(process.env['HEADGATE_EXPLAINED'] ?? 200);
const seed = Number(process.env['HEADGATE_EXPLAINED_SEED'] ?? 1);
const waitMs = 90_000;
let traffic: ExplainedTraffic;
beforeAll(async () => {
  traffic = await ExplainedTraffic.begin();
}, scaledMs(180_000));
afterAll(() => traffic?.fleet.close());

const one = (more: Partial<Asked> & { readonly who: string }): Asked => ({
  ...{ gateway: 0, host: 'shared', operation: 'chat', model: 'echo-small', maxTokens: 1, promptBytes: 11 },
  ...{ defect: undefined, visitor: undefined, ...more },
});

/** One of each kind, so that no result of a step is missing. */
const each: readonly Asked[] = [
  ...['near-a', 'busy', 'slots', 'month', 'acme', 'birch', 'dormant', 'paused'].map((who) => one({ who })),
  ...['revoked', 'expired', 'nobody', 'malformed', 'missing'].map((who) => one({ who })),
  ...(['shape', 'unknown field', 'encoded', 'bad http'] as const).map((defect) =>
    one({ who: 'busy', defect }),
  ),
  ...Object.keys(nodeFaults).map((model) => one({ who: 'busy', model, maxTokens: 7 })),
  ...['echo-large', 'echo-heavy', 'echo-idle', 'echo-locked', 'echo-private', 'unknown-model'].map((model) =>
    one({ who: 'slots', model }),
  ),
  ...[11, 1200, 2400, 4000, 9000].map((promptBytes) => one({ who: 'narrow', promptBytes })),
  one({ who: 'acme', model: 'echo-private' }),
  one({ who: 'acme', host: 'unknown' }),
  one({ who: 'acme', operation: 'unknown' }),
  one({ who: 'busy', operation: 'messages' }),
  one({ who: 'birch', host: stacks.heron, operation: 'messages' }),
  one({ who: 'birch', host: stacks.heron, operation: 'count-tokens' }),
  one({ who: 'birch', host: stacks.heron }),
  one({ who: 'two', host: stacks.heron, operation: 'messages' }),
  one({ who: 'acme', host: stacks.heron, operation: 'chat' }),
  one({ who: 'acme', host: stacks.otter, model: 'echo-large' }),
  one({ who: 'acme', host: stacks.otter, model: 'echo-embed', operation: 'embeddings' }),
  one({ who: 'busy', model: 'echo-embed', operation: 'embeddings' }),
  ...(['models', 'model'] as const).flatMap((operation) =>
    [
      { who: 'missing', host: 'shared' },
      { who: 'acme', host: stacks.otter, model: 'echo-large' },
      { who: 'acme', host: stacks.heron },
      { who: 'dormant', host: stacks.otter },
    ].map((more) => one({ operation, ...more })),
  ),
  one({ who: 'missing', operation: 'model', model: 'echo-idle' }),
  turnOf(0),
  turnOf(1),
  { ...turnOf(0), model: 'echo-large' },
  { ...turnOf(1), model: 'unknown-model', gateway: 1 },
  { ...turnOf(0), maxTokens: 1_000_000 },
];

type Action =
  | { readonly kind: 'ask' | 'open'; readonly asked: Asked }
  | { readonly kind: 'burst'; readonly all: readonly Asked[] }
  | { readonly kind: 'close'; readonly index: number }
  | { readonly kind: 'change'; readonly change: number; readonly of: number }
  | { readonly kind: 'quiet' };

const held = fc
  .record({
    gateway: fc.constantFrom(0, 1),
    who: fc.constantFrom('slots', 'slots', 'slots', 'busy', 'near-a', 'birch', 'visitor'),
    model: fc.constantFrom('echo-small', 'echo-small', 'echo-large'),
  })
  .map(({ who, ...more }): Asked => {
    if (who === 'visitor') return { ...turnOf(more.gateway), gateway: more.gateway, model: 'echo-small' };
    return one({ who, ...more, maxTokens: 9 });
  });
const burst = fc
  .record({
    who: fc.constantFrom('near-a', 'busy', 'busy'),
    gateways: fc.array(fc.constantFrom(0, 1), { minLength: 3, maxLength: 6 }),
  })
  .map(({ who, gateways }) => gateways.map((gateway) => one({ who, gateway })));
const actions: fc.Arbitrary<Action> = fc.oneof(
  { weight: 70, arbitrary: asked.map((request): Action => ({ kind: 'ask', asked: request })) },
  { weight: 8, arbitrary: held.map((request): Action => ({ kind: 'open', asked: request })) },
  { weight: 7, arbitrary: fc.nat(5).map((index): Action => ({ kind: 'close', index })) },
  { weight: 2, arbitrary: burst.map((all): Action => ({ kind: 'burst', all })) },
  {
    weight: 3,
    arbitrary: fc
      .tuple(fc.nat(20), fc.nat(20))
      .map(([change, of]): Action => ({ kind: 'change', change, of })),
  },
  { weight: 1, arbitrary: fc.constant<Action>({ kind: 'quiet' }) },
);

async function perform(action: Action): Promise<void> {
  switch (action.kind) {
    case 'ask':
      await traffic.ask(action.asked);
      return;
    case 'open':
      // Of what a visitor has in flight at most two are held, so that turns are served too.
      return traffic.held.length > 8 ? traffic.close(0) : traffic.open(action.asked);
    case 'close':
      return traffic.close(action.index);
    case 'burst':
      return traffic.burst(action.all);
    case 'change':
      return change(action.change, action.of);
    case 'quiet':
      return quiet();
    default:
      return action satisfies never;
  }
}

/** One change of the state, which is in force before the next request. Most of them would refuse much of what was asked so far. */
async function change(which: number, of: number): Promise<void> {
  const { fleet, drained, installs, adjusted } = traffic;
  const { client } = fleet;
  const changes: readonly (() => Promise<unknown>)[] = [
    async () => {
      const node = ['pool-1', 'acme-1', 'otter-1'][of % 3] ?? '';
      const isDrained = drained.has(node);
      await client.call('POST', `/nodes/${node}/${isDrained ? 'undrain' : 'drain'}?force=true`);
      if (isDrained) drained.delete(node);
      else drained.add(node);
    },
    async () => {
      const models = installs.get(stacks.otter) ?? new Set();
      const has = models.has('echo-large');
      await client.call(has ? 'DELETE' : 'PUT', `/stacks/${stacks.otter}/models/echo-large?force=true`);
      if (has) models.delete('echo-large');
      else models.add('echo-large');
    },
    async () => {
      const name = 'fleeting';
      await fleet.makeKey(name, 'birch');
      await fleet.settle();
      await traffic.ask(one({ who: name }));
      if (of % 2 === 0) await fleet.revoke(name);
      await fleet.settle();
      await traffic.ask(one({ who: name, gateway: 1 }));
    },
    async () => {
      const used = (adjusted.get('month') ?? 0) + traffic.counted.tokens.sum('month');
      await adjust(used > 400 ? -500 : 150);
    },
    async () => {
      traffic.isPaused = !traffic.isPaused;
      await client.call('PATCH', '/organisations/paused?force=true', { suspended: traffic.isPaused });
    },
    async () => {
      traffic.freeTurns = traffic.freeTurns === 1 ? 1_000_000 : 1;
      await client.call('PUT', '/anonymous?force=true', { freeTurns: traffic.freeTurns, ...visitorLimits });
    },
  ];
  await changes[which % changes.length]?.();
  await fleet.settle();
  // Pool nodes are back soon: without them most requests have one answer.
  if (drained.has('pool-1')) {
    await traffic.ask(one({ who: 'busy' }));
    await traffic.ask(one({ who: 'acme', gateway: 1 }));
    await client.call('POST', '/nodes/pool-1/undrain');
    drained.delete('pool-1');
    await fleet.settle();
  }
}

/** While nothing is sent, all sources agree: the limits, the list of models, the question that was not asked, and both gateways. */
async function quiet(): Promise<void> {
  for (const organisation of organisations) await limitsAgree(organisation);
  await listingsAgree();
  await inFlightAgrees(one({ who: 'slots' }), 'concurrency', 'slots');
  for (const gateway of [0, 1]) {
    const { counted } = traffic;
    await gatewayAgrees(
      one({ who: 'busy', gateway }),
      'requests',
      (at) => counted.inMinute('busy', 1 - gateway, at).to,
    );
  }
}

async function limitsAgree(organisation: string): Promise<void> {
  const { client } = traffic.fleet;
  const { requestsPerMinute, concurrency } = tiers[tierOf[organisation] ?? ''] ?? { models: [] };
  const { counted } = traffic;
  const ask = { organisation, model: 'echo-quick' };
  let seen: unknown;
  let wanted: unknown;
  await until(async () => {
    await traffic.closeOld();
    const shown = await client.call('GET', `/organisations/${organisation}/limits`);
    const found = explanationSchema.parse(await client.call('POST', '/explain', ask));
    const text = (name: string) => found.steps.find(({ step }) => step === name)?.text;
    const used = counted.inMinuteOfAll(organisation, Date.now());
    const inFlight = counted.inFlight.sum(organisation);
    // Without a plan every limit is 0.
    const hasPlan = tierOf[organisation] !== null && !isPaused(organisation);
    seen = {
      ...{ used: shown.requests.used, inFlight: shown.concurrency.inFlight },
      ...{ requests: text('requests'), concurrency: text('concurrency') },
    };
    wanted = {
      used: hasPlan && requestsPerMinute === undefined ? null : used,
      inFlight: hasPlan && concurrency === undefined ? null : inFlight,
      requests: hasPlan ? limitText(used, 'in this minute', requestsPerMinute) : 'not asked',
      concurrency: hasPlan ? flightText(inFlight, concurrency) : 'not asked',
    };
    return JSON.stringify(seen) === JSON.stringify(wanted);
  }, waitMs).catch(() => expect(seen, organisation).toEqual(wanted));
}
const isPaused = (organisation: string): boolean => organisation === 'paused' && traffic.isPaused;
const limitText = (used: number, what: string, limit: number | undefined): string =>
  limit === undefined ? 'no limit' : `${used} ${what}, of ${limit.toLocaleString('en')}`;
const flightText = (used: number, limit: number | undefined): string =>
  limit === undefined
    ? 'no limit, this one counts 1'
    : `${used} in flight, this one counts 1, of ${limit.toLocaleString('en')}`;

async function listingsAgree(): Promise<void> {
  const { fleet } = traffic;
  const known = traffic.known(one({ who: 'missing', operation: 'models' }));
  for (const { api } of fleet.gateways) {
    const { data } = (await (await fetch(`${api}/models`)).json()) as { data: { id: string }[] };
    expect(data.map(({ id }) => id).sort()).toEqual(listed(known).sort());
  }
}

/** What one gateway knows of the other is what is so, once it has read it. */
async function gatewayAgrees(asked: Asked, name: string, away: (atMs: number) => number): Promise<void> {
  let found: Explanation | undefined;
  await until(async () => {
    found = await traffic.ask(asked);
    const { text = '' } = found.steps.find(({ step }) => step === name) ?? {};
    return text.includes(` and ${away(Date.parse(found.time ?? ''))} elsewhere `);
  }, waitMs).catch(() => expect(found?.steps, `${name} of ${JSON.stringify(asked)}`).toBeUndefined());
}

async function inFlightAgrees(asked: Asked, name: string, subject: string): Promise<void> {
  for (const gateway of [0, 1]) {
    const { inFlight } = traffic.counted;
    await gatewayAgrees({ ...asked, gateway }, name, () => inFlight.of(subject, 1 - gateway).now);
  }
  traffic.counted.inFlight.agree(subject);
}

/** The allowance is used up, and given back. */
async function usedUp(): Promise<void> {
  for (const tokens of [500, -500]) {
    await adjust(tokens);
    await traffic.ask(one({ who: 'month' }));
  }
}

async function adjust(tokens: number): Promise<void> {
  const { adjusted, fleet } = traffic;
  await fleet.client.call('POST', '/organisations/month/usage-adjustments?why=test&force=true', { tokens });
  adjusted.set('month', (adjusted.get('month') ?? 0) + tokens);
  await fleet.settle();
}

test('what explanations say of requests of all kinds is what was sent, answered and counted', async () => {
  for (const request of each) await traffic.ask(request);
  await usedUp();
  await until(async () => {
    await traffic.burst([0, 1, 0, 1, 0, 1, 0, 1].map((gateway) => one({ who: 'near-a', gateway })));
    return traffic.results.has('requests refused');
  }, waitMs);
  // Two gateways share a limit, and some of it is in flight at the other one.
  for (const visitor of [0, 1])
    await traffic.open({ ...turnOf(visitor), gateway: visitor, model: 'echo-small' });
  for (const gateway of [0, 1, 1]) await traffic.open(one({ who: 'slots', gateway, maxTokens: 9 }));
  await inFlightAgrees(turnOf(0), 'visitor concurrency', visitorsSubject);
  await quiet();
  await traffic.ask(one({ who: 'slots', model: 'echo-large' }));
  await traffic.ask(one({ who: 'slots', model: 'echo-heavy', gateway: 1 }));
  for (const action of fc.sample(actions, { numRuns: count, seed })) await perform(action);
  while (traffic.held.length > 0) await traffic.close(0);
  await quiet();
}, 7_200_000);

const bothWays = [
  ...['host', 'key', 'path', 'shape', 'plan', 'context', 'allowance', 'requests', 'concurrency', 'stack'],
  ...['surface', 'own nodes', 'pool', 'tier', 'nodes', 'listing'],
];
const passedOnly = [
  ...['fresh', 'usage', 'network allowance', 'visitor tokens', 'visitor requests', 'visitor concurrency'],
];
const refusedOnly = ['http', 'answer'];

test('the sample has the results that steps can have, and numbers of both gateways', () => {
  expect([...bothWays, ...passedOnly, ...refusedOnly].sort()).toEqual([...stepNames].sort());
  const results = [
    ...[...bothWays, ...passedOnly].map((step) => `${step} ok`),
    ...[...bothWays, ...refusedOnly].map((step) => `${step} refused`),
  ];
  expect(results.filter((result) => !traffic.results.has(result))).toEqual([]);
  const numbers = ['requests', 'concurrency'].flatMap((step) => [
    ...[`${step} here`, `${step} elsewhere`, `${step} held`, `${step} refused with some elsewhere`],
  ]);
  expect([...numbers, 'visitor concurrency elsewhere'].filter((name) => !reached.has(name))).toEqual([]);
  // The figures of the long form.
  if (count > 200) console.log(JSON.stringify([traffic.explained, [...traffic.answers], [...reached]]));
});

test('all tokens and those that count: each command has what clients counted, and says which it is', async () => {
  const { counted, fleet, adjusted } = traffic;
  const env = { HEADGATE_ADMIN: fleet.plane.ready.admin, HEADGATE_TOKEN: operatorToken };
  const json = async <Answer>(...argv: string[]): Promise<Answer> =>
    JSON.parse((await runCli([...argv, '-o', 'json'], { env })).out) as Answer;
  for (const organisation of ['month', 'busy', 'acme', 'slots']) {
    const counts = Math.max(0, counted.tokens.sum(organisation) + (adjusted.get(organisation) ?? 0));
    const wanted = {
      totalTokens: counted.allTokens.get(organisation),
      requests: counted.requests.get(organisation),
      countedTokens: counts,
    };
    let usage: UsageTotals | undefined;
    await until(async () => {
      usage = await json<UsageTotals>('usage', 'show', '--org', organisation);
      return usage.totalTokens === wanted.totalTokens && usage.countedTokens === counts;
    }, 120_000).catch(() => undefined);
    expect(usage, organisation).toMatchObject(wanted);
    const { items } = await json<{ items: LimitUse[] }>('limits', 'list');
    expect(items.find((item) => item.organisation === organisation)?.tokens.used).toBe(counts);
    const shown = await runCli(['usage', 'show', '--org', organisation], { env });
    expect(shown.out).toMatch(/ALL TOKENS\n/);
    expect(shown.err).toContain(
      `tokens that count against the allowance: ${counts.toLocaleString('en')} of `,
    );
  }
  // Own nodes and stacks count for nothing.
  expect(counted.allTokens.get('acme')).toBeGreaterThan(counted.tokens.sum('acme'));
  expect((await runCli(['limits', 'list'], { env })).out).toMatch(/ALLOWANCE-TOKENS/);
}, 600_000);

test('the decisions of a gateway are read with the gateway token; with the operator token, at a control plane', async () => {
  const { metrics } = traffic.fleet.gateways[0] ?? { metrics: '' };
  const { admin } = traffic.fleet.plane.ready;
  const status = async (url: string, token: string): Promise<number> => {
    const answer = await fetch(url, { headers: { authorization: `Bearer ${token}` } });
    await answer.text();
    return answer.status;
  };
  const since = `/decisions?since=${Date.now() - 1000}`;
  expect(await status(new URL(since, metrics).href, gatewayToken)).toBe(200);
  expect(await status(new URL(since, metrics).href, operatorToken)).toBe(401);
  expect(await status(`${admin}/admin/v1${since}`, operatorToken)).toBe(200);
  expect(await status(`${admin}/admin/v1${since}`, gatewayToken)).toBe(401);
});
