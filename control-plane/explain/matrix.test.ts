/** Tests the matrix of models and hosts for a large organisation: it must be read in pages and computed in short steps. */
import { beforeAll, expect, test } from 'vitest';
import type { KnownEvent } from '../../schemas/events/events.ts';
import { memorySnapshot } from '../../shared/snapshot/open-snapshot.ts';
import { known, recordsOf } from '../../test/support/commits.ts';
import { type MatrixPage, type MatrixQuestion, matrixSteps } from './matrix.ts';

const counters = { windowUsed: 0, inFlight: 0, poolTokens: 0, freeTurns: 0 };
const modelCount = 2000;
const idOf = (n: number): string => `m-${String(n).padStart(4, '0')}`;
const stacks = Array.from({ length: 10 }, (_, n) => `stk-amber-otter-${String(n).padStart(4, '0')}`);
const snapshot = memorySnapshot();
const testNowMs = Date.UTC(2026, 10, 21);
beforeAll(() => {
  const organisation = (id: string, tier: string): KnownEvent[] => [
    known('organisation.set', { id, name: id, tier, anchor: '2026-01-01' }),
  ];
  const events = [
    ...Array.from({ length: modelCount }, (_, n) =>
      known('model.set', { id: idOf(n), family: 'f', added: '2026-01-01T00:00:00.000Z', weight: 1 }),
    ),
    known('tier.set', { id: 'All', rank: 1, models: '*' }),
    known('tier.set', { id: 'Some', rank: 2, models: [idOf(3)] }),
    ...organisation('acme', 'All'),
    ...organisation('birch', 'Some'),
    ...stacks.map((id) => known('stack.created', { id, organisation: 'acme', surface: 'openai' })),
    known('stack.created', { id: 'stk-amber-otter-zzzz', organisation: 'birch', surface: 'openai' }),
    known('stack.model_installed', { stack: 'stk-amber-otter-zzzz', model: idOf(7) }),
  ];
  const commits = Array.from({ length: Math.ceil(events.length / 200) }, (_, n) =>
    events.slice(n * 200, (n + 1) * 200),
  );
  snapshot.apply(recordsOf(commits));
});

function page(question: MatrixQuestion): MatrixPage & { readonly steps: number } {
  const found = matrixSteps(snapshot.db, question, counters, testNowMs);
  for (let steps = 0; ; steps++) {
    const { done, value } = found.next();
    if (done) return { ...value, steps };
  }
}

test('pages contain each model on each host once, with at most 1,000 answers, each a step of its own', () => {
  const cells = new Set<string>();
  let after: string | undefined;
  let pages = 0;
  do {
    const { items, next, steps } = page({ organisation: 'acme', after });
    expect(items.length).toBeLessThanOrEqual(1000);
    expect(steps).toBe(items.length);
    for (const { model, host } of items) cells.add(`${host} ${model}`);
    after = next;
    pages++;
  } while (after !== undefined);
  expect([cells.size, pages]).toEqual([modelCount * (1 + stacks.length), 23]);
});

test('models outside the tier and its stacks are left out, and one host can be requested alone', () => {
  const { items, next } = page({ organisation: 'birch' });
  expect(items.map(({ model, host }) => `${model} ${host}`)).toEqual(
    [idOf(3), idOf(7)].flatMap((id) => [`${id} shared`, `${id} stk-amber-otter-zzzz`]),
  );
  expect(next).toBeUndefined();
  const one = page({ organisation: 'acme', host: stacks[4] });
  expect(new Set(one.items.map(({ host }) => host))).toEqual(new Set([stacks[4]]));
  expect([one.items.length, one.next]).toEqual([1000, idOf(999)]);
});

test('a rerank model is asked to rerank, and others for a chat, or for messages if the stack speaks them', () => {
  const own = memorySnapshot();
  const [stack = '', switched = ''] = stacks;
  const byModel = (a: unknown, b: unknown): number =>
    (a as { model: string }).model.localeCompare((b as { model: string }).model);
  const names = ['ranks', 'talks'] as const;
  const facts = { owner: 'o', generation: 1, up: true, models: [...names], rerankModels: ['ranks'] };
  const node = (id: string, place: { kind: 'pool' } | { kind: 'stack'; id: string }): KnownEvent[] => [
    known('node.registered', { id, place, url: `http://${id}.invalid`, dialect: 'vllm', agent: false }),
    known('node.joined', { id, owner: 'o', generation: 1 }),
    known('node.health_changed', { id, ...facts }),
  ];
  own.apply(
    recordsOf([
      [
        ...names.map((id) =>
          known('model.set', { id, family: 'f', added: '2026-01-01T00:00:00.000Z', weight: 1 }),
        ),
        known('tier.set', { id: 'All', rank: 1, models: '*' }),
        known('organisation.set', { id: 'acme', name: 'acme', tier: 'All', anchor: '2026-01-01' }),
        known('stack.created', { id: stack, organisation: 'acme', surface: 'openai' }),
        ...names.flatMap((model) => [
          known('stack.model_installed', { stack, model }),
          known('pool.model_installed', { model }),
        ]),
        ...node('n1', { kind: 'stack', id: stack }),
        ...node('n2', { kind: 'pool' }),
        known('stack.created', { id: switched, organisation: 'acme', surface: 'anthropic' }),
        known('stack.model_installed', { stack: switched, model: 'talks' }),
        ...node('n3', { kind: 'stack', id: switched }),
      ],
    ]),
  );
  const itemsAt = (host?: string): unknown[] => {
    const found = matrixSteps(own.db, { organisation: 'acme', host }, counters, testNowMs);
    let result = found.next();
    while (result.done !== true) result = found.next();
    return [...result.value.items];
  };
  const talks = itemsAt(switched).filter((item) => (item as { model: string }).model === 'talks');
  expect(talks).toEqual([{ model: 'talks', host: switched, path: 'messages', served: true, status: 200 }]);
  expect([...itemsAt('shared'), ...itemsAt(stack)].sort(byModel)).toEqual(
    names.flatMap((model) =>
      ['shared', stack].map((host) => ({
        ...{ model, host, served: true, status: 200 },
        path: model === 'ranks' ? 'rerank' : 'chat',
      })),
    ),
  );
});
