/** The effect of events against each question decided by itself on two snapshots, one of which has folded them. */
import { afterAll, expect, test } from 'vitest';
import { eventTypeNames } from '../../schemas/event-definitions.ts';
import type { KnownEvent } from '../../schemas/events.ts';
import { answerLabel, emptyCounters, isServed } from '../../shared/decision/effect.ts';
import { decideWith, factsOf } from '../../shared/decision/question.ts';
import { atOnce } from '../../shared/runtime/slices.ts';
import { createLookup } from '../../shared/snapshot/lookup.ts';
import { memorySnapshot } from '../../shared/snapshot/open-snapshot.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { runs } from '../../test/support/budget.ts';
import { known, randomEvent, recordsOf } from '../../test/support/commits.ts';
import { seededRandom } from '../../test/support/random.ts';
import { changingTypes, servingFleet } from '../../test/support/serving-fleet.ts';
import { mayTurnAnswers } from '../commands/event-effects.ts';
import { compareAnswers, effectSteps } from './effect.ts';
import { limitsOn, lowered } from './effect-limits.ts';
import { peaksOf } from './effect-peaks.ts';
import type { SampledDecision } from './sampled.ts';

const nowMs = Date.UTC(2026, 10, 21);
const operations = ['chat', 'messages', 'rerank'] as const;

function snapshotOf(commits: readonly (readonly KnownEvent[])[]): Snapshot {
  const snapshot = memorySnapshot();
  snapshot.apply(recordsOf(commits));
  return snapshot;
}

const ids = (snapshot: Snapshot, sql: string): string[] =>
  snapshot.db.prepare<[], string>(sql).pluck().all() as string[];

/** Each question that is answered on one of the two states, and its two answers, none left out. */
function eachByItself(before: Snapshot, after: Snapshot): Map<string, string> {
  const both = (sql: string): Set<string> => new Set([before, after].flatMap((each) => ids(each, sql)));
  const organisations = both('SELECT id FROM organisation');
  const stacks = both('SELECT id FROM stack');
  const models = both('SELECT model FROM routes UNION SELECT model FROM pool_model');
  const lookups = [before, after].map(({ db }) => createLookup(db));
  const found = new Map<string, string>();
  for (const organisation of [...organisations, undefined])
    for (const host of organisation === undefined ? ['shared'] : ['shared', ...stacks])
      for (const model of models)
        for (const operation of operations) {
          const facts = factsOf({
            ...{ operation, model, promptTokens: 1, maxTokens: 1 },
            credential: { organisation: organisation ?? '' },
            visitor: organisation === undefined ? 'v-test' : undefined,
            host: host === 'shared' ? 'shared' : 'stack',
            stack: host === 'shared' ? undefined : host,
          });
          const question = { facts, counters: emptyCounters, fenced: false, outboxFull: false, nowMs };
          const [from, to] = lookups.map((lookup) => answerLabel(decideWith(lookup, question).verdict));
          if (from === undefined || to === undefined || from === to) continue;
          if (isServed(from) || isServed(to))
            found.set([organisation ?? 'visitors', host, model, operation].join(' '), `${from} -> ${to}`);
        }
  return found;
}

const asked = { by: 'operator', nowMs };

let turnedInAll = 0;
afterAll(() => expect(turnedInAll).toBeGreaterThan(0));

test.each([...eventTypeNames, 'mixed' as const])(
  'answers that a random %s turns are those that differ when each is decided by itself',
  (type) => {
    for (let seed = 1; seed <= runs({ fast: 4, full: 4 }); seed++) {
      const random = seededRandom(seed);
      const fleet = servingFleet(random);
      const before = snapshotOf(fleet);
      const context = { seq: before.seq + 1, atMs: nowMs, by: 'operator' };
      const events: KnownEvent[] = [];
      for (let tries = 0; tries < (type === 'mixed' ? 10 : 4); tries++) {
        const drawn =
          type === 'mixed'
            ? (changingTypes[Math.floor(random() * changingTypes.length)] ?? 'tier.set')
            : type;
        const next = [...events, randomEvent(random, drawn)];
        const isFolded = before.stateAt(
          { kind: 'previewed', events: next, context },
          (_state, passedOver) => passedOver.length === 0,
        );
        if (isFolded) events.push(...next.slice(-1));
      }
      const digest = before.digest();
      const after = snapshotOf([...fleet, events]);
      const found = new Map(
        atOnce(compareAnswers(before, { ...asked, events })).turned.flatMap(
          ({ of, model, operation, from, to }) =>
            of.askers.map(({ organisation = 'visitors', host }): [string, string] => [
              [organisation, host, model, operation].join(' '),
              `${from} -> ${to}`,
            ]),
        ),
      );
      const wanted = eachByItself(before, after);
      turnedInAll += wanted.size;
      if (type !== 'mixed' && !mayTurnAnswers(type)) expect(Object.fromEntries(wanted)).toEqual({});
      expect(Object.fromEntries(found), `seed ${seed}: ${JSON.stringify(events)}`).toEqual(
        Object.fromEntries(wanted),
      );
      expect(before.digest()).toBe(digest);
    }
  },
);

test('a plan that loses a model: who is refused, how many, and what limits are lower', () => {
  const organisations = Array.from({ length: 7 }, (_, n) => `org-${n}`);
  const tier = { id: 'Plus', rank: 1, models: ['m-1', 'm-2'], requestsPerMinute: 100 };
  const snapshot = snapshotOf([
    [
      ...['m-1', 'm-2'].map((id) =>
        known('model.set', { id, family: 'f', added: '2026-01-01T00:00:00.000Z', weight: 1 }),
      ),
      known('tier.set', tier),
      ...organisations.map((id) =>
        known('organisation.set', { id, name: id, tier: 'Plus', anchor: '2026-01-01' }),
      ),
      ...['m-1', 'm-2'].map((model) => known('pool.model_installed', { model })),
    ],
  ]);
  const events = [known('tier.set', { ...tier, models: ['m-1'], requestsPerMinute: 10 })];
  const { static: found, limits } = atOnce(effectSteps(snapshot, { ...asked, events }));
  // No node answers, so nothing is served before it either.
  expect(found).toEqual({ combinations: 0, differ: 0, refused: 0, groups: [] });
  expect(limits).toEqual([{ organisations: 7, what: 'requestsPerMinute', from: 100, to: 10 }]);
});

test('two stacks that are removed are answered by the plans of their organisations, one of which is suspended', () => {
  const [one, two] = ['stk-amber-otter-1', 'stk-blue-finch-2'] as const;
  const stackOf = (id: typeof one | typeof two, organisation: string): KnownEvent[] => [
    known('organisation.set', { id: organisation, name: organisation, tier: 'Plus', anchor: '2026-01-01' }),
    known('stack.created', { id, organisation, surface: 'openai' }),
    known('stack.model_installed', { stack: id, model: 'm-1' }),
    known('node.registered', {
      ...{
        id: `n-${id}`,
        place: { kind: 'stack', id },
        url: 'http://127.0.0.1/',
        dialect: 'vllm',
        agent: false,
      },
    }),
    known('node.joined', { id: `n-${id}`, owner: 'control-1', generation: 1 }),
    known('node.health_changed', {
      ...{ id: `n-${id}`, owner: 'control-1', generation: 1, up: true, models: ['m-1'] },
    }),
  ];
  const snapshot = snapshotOf([
    [
      known('tier.set', { id: 'Plus', rank: 1, models: '*' }),
      ...stackOf(one, 'org-1'),
      ...stackOf(two, 'org-2'),
    ],
  ]);
  const events = [
    known('stack.removed', { id: one }),
    known('stack.removed', { id: two }),
    known('organisation.suspended', { id: 'org-2', suspended: true }),
  ];
  const { groups } = atOnce(effectSteps(snapshot, { ...asked, events })).static;
  expect(groups.map(({ organisation, to }) => `${organisation}: ${to}`).sort()).toEqual([
    'org-1: 404 TargetNotServingError',
    'org-2: 403 ModelNotInPlanError',
  ]);
});

test('lowered limits have what was used of them at most; of visitors those of one, and of all together', () => {
  const anonymous = { models: '*' as const, freeTurns: 10, requestsPerMinute: 5 };
  const organisations = ['org-1', 'org-2'];
  const tier = { id: 'Plus', rank: 1, models: '*' as const, requestsPerMinute: 100, concurrency: 9 };
  const snapshot = snapshotOf([
    [
      known('tier.set', tier),
      known('anonymous.set', { ...anonymous, total: { concurrency: 8 } }),
      ...organisations.map((id) =>
        known('organisation.set', { id, name: id, tier: 'Plus', anchor: '2026-01-01' }),
      ),
    ],
  ]);
  const events = [
    known('tier.set', { ...tier, requestsPerMinute: 10, concurrency: 4 }),
    known('anonymous.set', { ...anonymous, freeTurns: 3, total: { concurrency: 8, tokensPerDay: 100 } }),
  ];
  const busiest = new Map([
    ['org-1', 7],
    ['org-2', 42],
  ]);
  const record = {
    ...{ organisation: 'org-1', promptTokens: 100, maxTokens: 50, stage: 'answer' },
    counters: { windowUsed: 50, inFlight: 8, concurrency: { here: 2, elsewhere: 3, room: 1 }, poolTokens: 9 },
  } as unknown as SampledDecision['record'];
  const visit = {
    ...{ visitor: 'v-1', promptTokens: 10, stage: 'answer' },
    counters: {
      windowUsed: 0,
      inFlight: 0,
      freeTurns: 6,
      visitors: { windowUsed: 0, inFlight: 1, tokens: 77 },
    },
  } as unknown as SampledDecision['record'];
  const records = [record, visit].map((each) => ({ record: each, requests: 1 }));
  const { limits } = atOnce(effectSteps(snapshot, { ...asked, events, busiest, records: [] }));
  expect(limits.map(({ what, peak }) => [what, peak])).toEqual([
    ['requestsPerMinute', 42],
    ['concurrency', undefined],
    ['freeTurns', undefined],
    ['total.tokensPerDay', undefined],
  ]);
  const before = limitsOn(snapshot.db);
  const after = new Map(
    [...before].map(([subject, of]) => [subject, { ...of, concurrency: 1, freeTurns: 1 }]),
  );
  expect(lowered(before, after, { peaks: peaksOf(busiest, records) })).toEqual([
    { organisations: 2, what: 'concurrency', from: 9, to: 1, peak: 6 },
    { visitors: true, organisations: 0, what: 'freeTurns', from: 10, to: 1, peak: 7 },
    { visitors: true, organisations: 0, what: 'concurrency', from: null, to: 1, peak: 1 },
  ]);
  expect(lowered(before, after, { peaks: new Map(), only: 'org-1' })).toHaveLength(1);
});
