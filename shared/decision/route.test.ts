import fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import { goldenCases, openCorpus } from '../../test/replay/decisions/corpus.ts';
import { Refusal } from './refusal.ts';
import { nodeOfStackFailed, type RoutingFacts, route, targetNotServing } from './route.ts';

/** Real folds of one log, at the positions that the golden decisions stand at. */
const corpus = openCorpus();
afterAll(() => corpus.close());
const positions = [...new Set(goldenCases.map(({ atSeq }) => atSeq))];
const serving = 10;

const facts: RoutingFacts = {
  target: { kind: 'shared' },
  organisation: 'cedar',
  tier: 'Starter',
  model: 'echo-small',
  surface: 'openai',
  reranks: false,
};
const otter = { kind: 'stack', stack: 'stk-amber-otter-9k2f' } as const;
const lynx = { kind: 'stack', stack: 'stk-silent-lynx-3c3c' } as const;
const missing = { kind: 'stack', stack: 'stk-never-made-7zzz' } as const;
const acme = { organisation: 'acme', tier: 'Platinum', model: 'echo-large' } as const;

function answer(change: Partial<RoutingFacts>): string {
  const placement = route(corpus.at(serving), { ...facts, ...change });
  if (placement instanceof Refusal) return placement.type;
  return `${placement.capacity}: ${placement.candidates.map(({ node }) => node).join(' ')}`;
}

test.each<[string, Partial<RoutingFacts>, string]>([
  ['Routing algorithm 1: an own node wins over the pool', { ...acme, model: 'echo-small' }, 'own: acme-own'],
  ['Routing algorithm 2: the pool answers where no own node does', acme, 'pool: pool-1'],
  [
    'Routing algorithm 1: an own node serves what no pool has',
    { ...acme, model: 'own-only' },
    'own: acme-own',
  ],
  [
    'Routing algorithm 1: an own node is no matter of the plan',
    { organisation: 'elder', model: 'echo-large' },
    'own: elder-own',
  ],
  ['Errors 4: the plan excludes what nobody answers for', { model: 'locked-idle' }, 'ModelNotInPlanError'],
  [
    'What the service does 4: the wrong surface comes before what is not served',
    { ...acme, model: 'no-such-model', target: lynx },
    'UnsupportedShapeError',
  ],
  ['Routing algorithm 3: nobody answers', { model: 'never-loaded' }, 'InferenceUnavailableError'],
  ['Errors 4: the plan does not include the model', { model: 'echo-large' }, 'ModelNotInPlanError'],
  ['Errors 4: there is no plan', { tier: null }, 'ModelNotInPlanError'],
  [
    'Errors 4: there is no plan, on a stack host',
    { ...acme, tier: null, target: otter },
    'ModelNotInPlanError',
  ],
  ['Errors 5: the model is in no pool', { model: 'own-only' }, 'DedicatedOnlyModelError'],
  ['Errors 5: nobody knows the model', { model: 'no-such-model' }, 'DedicatedOnlyModelError'],
  [
    'Routing rule 5: a visitor is served by the pool',
    { organisation: null, tier: 'anonymous' },
    'pool: pool-1 pool-2',
  ],
  [
    'Routing rule 5: a visitor never reaches a stack',
    { organisation: null, tier: 'anonymous', target: otter, model: 'echo-large' },
    'TargetNotServingError',
  ],
  ['Routing rule 3: a stack answers', { ...acme, target: otter }, 'stack: otter-1'],
  [
    'Errors 6: a stack that does not serve the model',
    { ...acme, model: 'echo-small', target: otter },
    'TargetNotServingError',
  ],
  ['Errors 6: a foreign stack', { model: 'echo-large', target: otter }, 'TargetNotServingError'],
  ['Errors 6: a foreign stack, switched', { model: 'echo-large', target: lynx }, 'TargetNotServingError'],
  ['Errors 6: a missing stack', { ...acme, target: missing }, 'TargetNotServingError'],
  ['What the service does 4: chat on a switched stack', { ...acme, target: lynx }, 'UnsupportedShapeError'],
  [
    'What the service does 4: messages on a switched stack',
    { ...acme, target: lynx, surface: 'anthropic' },
    'stack: lynx-1',
  ],
  [
    'What the service does 4: messages on an unswitched stack',
    { ...acme, target: otter, surface: 'anthropic' },
    'UnsupportedShapeError',
  ],
  ['What the service does 4: messages on the shared host', { surface: 'anthropic' }, 'UnsupportedShapeError'],
  [
    'Endpoints 3: embeddings on a switched stack',
    { ...acme, model: 'embed-one', target: lynx, surface: 'any' },
    'stack: lynx-1',
  ],
])('%s', (_name, change, expected) => {
  expect(answer(change)).toBe(expected);
});

test('Errors 6: whatever the reason for our log, the answer is the same', () => {
  const [failed, foreign] = [nodeOfStackFailed('status 500'), targetNotServing('foreign stack')];
  expect(failed.envelope('/x')).toEqual(foreign.envelope('/x'));
  expect([failed.reason, foreign.reason]).toEqual(['status 500', 'foreign stack']);
});

test('at any position and for any names, a route is nodes of one place or a router refusal, and nothing is thrown', () => {
  const name = fc.oneof(
    fc.constantFrom('acme', 'cedar', 'echo-small', 'echo-large', '*', '', "'", '%'),
    fc.string({ unit: 'binary' }),
  );
  const anyFacts = fc.record<RoutingFacts>({
    target: fc.oneof(
      fc.constantFrom({ kind: 'shared' as const }, otter, lynx, missing),
      fc.record({ kind: fc.constant('stack' as const), stack: name }),
    ),
    organisation: fc.option(name, { nil: null }),
    tier: fc.option(fc.oneof(fc.constantFrom('Starter', 'Platinum', 'anonymous'), name), { nil: null }),
    model: name,
    surface: fc.constantFrom('openai', 'anthropic', 'any'),
    reranks: fc.constant(false),
  });
  const refusals = [
    'UnsupportedShapeError',
    'InferenceUnavailableError',
    'ModelNotInPlanError',
    'DedicatedOnlyModelError',
    'TargetNotServingError',
  ];
  fc.assert(
    fc.property(fc.constantFrom(...positions), anyFacts, (seq, some) => {
      const placement = route(corpus.at(seq), some);
      if (placement instanceof Refusal) expect(refusals).toContain(placement.type);
      else expect(placement.candidates.length).toBeGreaterThan(0);
    }),
    { numRuns: 500 },
  );
});
