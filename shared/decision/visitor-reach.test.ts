/**
 * Tests invariant I6 with random fleets: whatever was installed, registered and reported, a visitor can reach only nodes of
 * the pool.
 */
import { expect, test } from 'vitest';
import { buildFacts, decideWithLookup } from '../../control-plane/explain/question.ts';
import { runs } from '../../test/support/budget.ts';
import { fleetHistory, known, recordsOf } from '../../test/support/commits.ts';
import { createLookup } from '../snapshot/lookup.ts';
import { memorySnapshot } from '../snapshot/open-snapshot.ts';

const counters = { windowUsed: 0, inFlight: 0, poolTokens: 0, freeTurns: 0, networkTurns: 0 };
const conditions = { counters, fenced: false, outboxFull: false, nowMs: Date.UTC(2026, 10, 22) };

/** Model that each history ends by opening to visitors, and that a node in each kind of place has loaded. */
const model = 'echo-small';
const stack = 'stk-amber-otter-1';
const owner = { owner: 'control-1', generation: 1 };
const end = [
  known('model.set', { id: model, family: 'echo', added: '2026-01-01T00:00:00Z', weight: 1 }),
  known('anonymous.set', { freeTurns: 5, models: [model] }),
  known('stack.created', { id: stack, organisation: 'org-1', surface: 'openai' }),
  known('stack.model_installed', { stack, model }),
  known('pool.model_installed', { model }),
  ...[
    { kind: 'pool' as const },
    { kind: 'stack' as const, id: stack },
    { kind: 'organisation' as const, id: 'org-1' },
  ]
    .map((place) => ({ place, id: `last-${place.kind}` }))
    .flatMap(({ place, id }) => [
      known('node.registered', { id, place, url: 'http://127.0.0.1:1', dialect: 'vllm', agent: false }),
      known('node.joined', { id, ...owner }),
      known('node.health_changed', { id, ...owner, up: true, models: [model] }),
    ]),
];

test('Routing rule 5: in random fleets, a visitor reaches no stack and no organisation’s node', () => {
  for (let seed = 1; seed <= runs({ fast: 40, full: 50 }); seed++) {
    const snapshot = memorySnapshot();
    snapshot.apply(recordsOf([...fleetHistory(seed, 150), end]));
    let placed = 0;
    const { db } = snapshot;
    const lookup = createLookup(db);
    const all = (sql: string): string[] => db.prepare<[], string>(sql).pluck().all();
    const models = all('SELECT id FROM model UNION SELECT model FROM routes');
    const stacks = [undefined, ...all('SELECT id FROM stack')];
    const pool = new Set(all("SELECT id FROM node WHERE place = 'pool'"));
    for (const model of models)
      for (const stack of stacks)
        for (const operation of ['chat', 'embeddings', 'messages'] as const) {
          const asked = { operation, host: stack === undefined ? 'shared' : 'stack', stack, model } as const;
          const size = { promptTokensMax: 1, promptTokensLeast: undefined, maxTokens: 1 };
          const facts = buildFacts({
            ...{ ...asked, ...size, visitor: 'v-1', network: 'n-1' },
            credential: { fault: 'missing', carried: false },
          });
          const { verdict } = decideWithLookup(lookup, { ...conditions, facts });
          if (verdict.kind !== 'placed' || verdict.decision.placement instanceof Error) continue;
          placed++;
          expect([seed, model, stack]).toEqual([seed, model, undefined]);
          const { candidates } = verdict.decision.placement;
          expect(candidates.filter(({ node }) => !pool.has(node))).toEqual([]);
        }
    db.close();
    expect(placed, `with seed ${seed}`).toBeGreaterThan(0);
  }
});
