import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type Fleet, fleetSchema } from '../../schemas/events/fleet.ts';
import { nameSchema } from '../../schemas/names.ts';
import { atOnce } from '../../shared/runtime/slices.ts';
import { runs } from '../../test/support/budget.ts';
import { smallFleet, TestState, testNowMs } from '../../test/support/state.ts';
import { exportFleet } from './fleet.ts';
import { diffFleet, rankTiers } from './fleet-diff.ts';

const stackId = 'stk-amber-otter-9k2f';

function apply(state: TestState, fleet: object, options: { prune?: boolean; force?: boolean } = {}) {
  const { force, ...rest } = options;
  return state.when('fleet.apply', { body: { fleet, ...rest } }, { force });
}

const dump = (state: TestState) =>
  ['model', 'tier', 'tier_model', 'organisation', 'member', 'stack', 'stack_model', 'pool_model', 'node'].map(
    (table) => state.db.prepare(`SELECT * FROM ${table}`).all(),
  );

const whole = {
  version: 1,
  models: [
    { id: 'echo-small', family: 'echo' },
    { id: 'echo-large', family: 'echo', weight: 4 },
  ],
  tiers: [
    { id: 'Starter', requestsPerMinute: 60, models: ['echo-small'] },
    { id: 'Platinum', models: '*' },
  ],
  anonymous: { freeTurns: 10, models: ['echo-small'] },
  pool: { models: ['echo-small'], nodes: [{ id: 'pool-1', url: 'http://127.0.0.1:9001', dialect: 'vllm' }] },
  organisations: [
    {
      id: 'acme',
      name: 'Acme',
      tier: 'Platinum',
      members: [{ person: 'ana', role: 'owner' }],
      nodes: [{ id: 'acme-1', url: 'http://127.0.0.1:9002', dialect: 'llamacpp' }],
      stacks: [
        {
          id: stackId,
          models: ['echo-large'],
          nodes: [
            { id: 'acme-s1', url: 'http://127.0.0.1:9003', dialect: 'sglang', models: { 'echo-large': 'x' } },
          ],
        },
      ],
    },
  ],
};

test('applying a file to an empty state creates everything, and applying it again changes nothing', () => {
  const state = new TestState();
  const { events, answer } = apply(state, whole);
  expect(events.map(({ type }) => type)).toEqual([
    ...['model.set', 'model.set', 'tier.set', 'tier.set', 'anonymous.set', 'organisation.set'],
    ...['member.set', 'node.registered', 'stack.created', 'stack.model_installed', 'node.registered'],
    ...['pool.model_installed', 'node.registered'],
  ]);
  expect(answer['changes']).toContainEqual({
    action: 'create',
    kind: 'install',
    id: `${stackId}/echo-large`,
  });
  expect(apply(state, whole)).toEqual({ events: [], answer: { changes: [] } });
  expect(state.when('fleet.apply', { body: { fleet: whole } }, { nowMs: testNowMs + 1e9 }).events).toEqual(
    [],
  );
  expect(apply(state, whole, { prune: true }).events).toEqual([]);
});

interface Change {
  readonly fields?: readonly string[];
  readonly values?: readonly { readonly field: string; readonly before: unknown; readonly after: unknown }[];
}
const withoutValues = ({ values: _, ...change }: Change): object => change;

test.each<[claim: string, change: (fleet: typeof whole) => object, changes: object[]]>([
  [
    'a limit',
    (fleet) => ({ ...fleet, tiers: [{ ...fleet.tiers[0], requestsPerMinute: 61 }, fleet.tiers[1]] }),
    [{ action: 'change', kind: 'tier', id: 'Starter', fields: ['requestsPerMinute'] }],
  ],
  [
    'an omitted limit becomes unlimited',
    (fleet) => ({ ...fleet, tiers: [{ id: 'Starter', models: ['echo-small'] }, fleet.tiers[1]] }),
    [{ action: 'change', kind: 'tier', id: 'Starter', fields: ['requestsPerMinute'] }],
  ],
  [
    "an organisation's tier",
    (fleet) => ({ ...fleet, organisations: [{ ...fleet.organisations[0], tier: null }] }),
    [{ action: 'change', kind: 'organisation', id: 'acme', fields: ['tier'] }],
  ],
  ['an omitted tier stays', (fleet) => ({ ...fleet, organisations: [{ id: 'acme', name: 'Acme' }] }), []],
  [
    'a role',
    (fleet) => ({
      ...fleet,
      organisations: [{ ...fleet.organisations[0], members: [{ person: 'ana', role: 'viewer' }] }],
    }),
    [{ action: 'change', kind: 'member', id: 'acme/ana', fields: ['role'] }],
  ],
  [
    'a surface',
    (fleet) => ({
      ...fleet,
      organisations: [{ ...fleet.organisations[0], stacks: [{ id: stackId, surface: 'anthropic' }] }],
    }),
    [{ action: 'change', kind: 'stack', id: stackId, fields: ['surface'] }],
  ],
  [
    'a node’s place and address',
    (fleet) => ({
      ...fleet,
      pool: { nodes: [{ id: 'acme-1', url: 'http://127.0.0.1:9', dialect: 'llamacpp', agent: true }] },
      organisations: [],
    }),
    [{ action: 'change', kind: 'node', id: 'acme-1', fields: ['place', 'url', 'agent'] }],
  ],
  [
    'a tier above all others',
    (fleet) => ({ ...fleet, tiers: [...fleet.tiers, { id: 'Diamond', models: '*' }] }),
    [{ action: 'create', kind: 'tier', id: 'Diamond' }],
  ],
  [
    'a tier in between',
    (fleet) => ({ ...fleet, tiers: [fleet.tiers[0], { id: 'Gold', models: '*' }, fleet.tiers[1]] }),
    [
      { action: 'create', kind: 'tier', id: 'Gold' },
      { action: 'change', kind: 'tier', id: 'Platinum', fields: ['rank'] },
    ],
  ],
  ['nothing, if everything is omitted', () => ({ version: 1 }), []],
])('only differences are changed: %s', (_claim, change, changes) => {
  const state = new TestState();
  apply(state, whole);
  // Needs force, because one of the changes takes the role from the only owner.
  const { answer } = apply(state, change(whole), { force: true });
  const found = answer['changes'] as readonly Change[];
  expect(found.map(withoutValues)).toEqual(changes);
  // Each changed field must list its value before and after the change.
  for (const { fields = [], values = [] } of found) {
    expect(values.map(({ field }) => field)).toEqual(fields);
    for (const { before, after } of values) expect(before).not.toEqual(after);
  }
  expect(apply(state, change(whole)).events).toEqual([]);
});

test('pruning removes what the file does not list, but no key of a remaining organisation', () => {
  const state = new TestState().given(smallFleet);
  const fleet = { version: 1, organisations: [{ id: 'acme', name: 'Acme', tier: null }] };
  expect(() => apply(state, fleet, { prune: true })).toThrow(
    expect.objectContaining({ type: 'GuardRefused' }),
  );
  const { answer } = apply(state, fleet, { prune: true, force: true });
  expect((answer['changes'] as readonly Change[]).map(withoutValues)).toEqual([
    { action: 'change', kind: 'organisation', id: 'acme', fields: ['tier'] },
    { action: 'remove', kind: 'node', id: 'pool-1' },
    { action: 'remove', kind: 'install', id: 'pool/echo-small' },
    { action: 'remove', kind: 'install', id: `${stackId}/echo-large` },
    { action: 'remove', kind: 'stack', id: stackId },
    { action: 'remove', kind: 'member', id: 'acme/ana' },
    { action: 'remove', kind: 'member', id: 'other/zoe' },
    { action: 'remove', kind: 'organisation', id: 'other' },
    { action: 'remove', kind: 'tier', id: 'Starter' },
    { action: 'remove', kind: 'tier', id: 'Platinum' },
    { action: 'remove', kind: 'model', id: 'echo-large' },
    { action: 'remove', kind: 'model', id: 'echo-small' },
  ]);
  expect(state.db.prepare('SELECT id, revoked_at FROM api_key').all()).toEqual([
    { id: 'key-acme', revoked_at: null },
  ]);
});

test('pruning with a file without visitors closes the service to them', () => {
  const state = new TestState();
  apply(state, whole);
  apply(state, { version: 1, models: [whole.models[1]] }, { prune: true });
  expect(exportFleet(state.db).anonymous).toBeUndefined();
});

test('a file may name existing models and tiers, except those that it would prune', () => {
  const state = new TestState().given(smallFleet);
  const partial = {
    version: 1,
    organisations: [
      { id: 'new', name: 'New', tier: 'Platinum', stacks: [{ id: 'stk-a-b-c', models: ['echo-large'] }] },
    ],
  };
  const refused = (options: { prune?: boolean }, fleet: object) => () => apply(state, fleet, options);
  expect(refused({ prune: true }, partial)).toThrow(
    expect.objectContaining({
      type: 'InvalidCommand',
      details: [
        { path: 'organisations[0].stacks[0].models[0]', message: 'there is no model echo-large' },
        { path: 'organisations[0].tier', message: 'there is no tier Platinum' },
      ],
    }),
  );
  expect(refused({}, { version: 1, tiers: [{ id: 'T', models: ['nothing'] }] })).toThrow(/no model nothing/);
  const keepsTier = { version: 1, organisations: [{ id: 'acme', name: 'Acme' }] };
  expect(refused({ prune: true }, keepsTier)).toThrow(/no tier Platinum/);
  expect(apply(state, partial).events.length).toBe(3);
});

test('a stack cannot move to another organisation', () => {
  const state = new TestState().given(smallFleet);
  const fleet = { version: 1, organisations: [{ id: 'other', name: 'Other', stacks: [{ id: stackId }] }] };
  expect(() => apply(state, fleet)).toThrow(
    expect.objectContaining({ type: 'Conflict', message: `the stack ${stackId} belongs to acme` }),
  );
});

test('a node that leaves a pruned stack keeps its state, even if it is drained', () => {
  const state = new TestState();
  apply(state, whole);
  state.given([{ type: 'node.drained', data: { id: 'acme-s1' } }]);
  const moved = { id: 'acme-s1', url: 'http://127.0.0.1:9003', dialect: 'sglang' };
  apply(state, { version: 1, pool: { nodes: [moved] } }, { prune: true });
  expect(state.db.prepare('SELECT id, place, drained FROM node').all()).toEqual([
    { id: 'acme-s1', place: 'pool', drained: 1 },
  ]);
});

test('an omitted field gets its default in a new resource, and keeps its value in an existing one', () => {
  const state = new TestState();
  const fleet = {
    version: 1,
    models: [{ id: 'a', family: 'f' }],
    organisations: [{ id: 'o', name: 'O', stacks: [{ id: 'stk-a-b-c' }] }],
  };
  apply(state, fleet);
  expect(exportFleet(state.db)).toMatchObject({
    models: [{ id: 'a', family: 'f', weight: 1, added: '2026-11-21T00:00:00.000Z' }],
    organisations: [{ tier: null, anchor: '2026-11-21', stacks: [{ surface: 'openai' }] }],
  });
  state.when('model.set', { params: { id: 'a' }, body: { family: 'f', weight: 3, affinity: 'none' } });
  state.when('stack.set-surface', { params: { id: 'stk-a-b-c' }, body: { surface: 'anthropic' } });
  expect(apply(state, fleet).events).toEqual([]);
});

test('an invalid document is refused with a list of every fault', () => {
  const state = new TestState();
  const fleet = { version: 1, models: [], tiers: [{ id: 'T', models: ['a', 'b'] }] };
  expect(() => apply(state, fleet)).toThrow(
    expect.objectContaining({
      type: 'InvalidCommand',
      details: [
        expect.objectContaining({ path: 'fleet.tiers[0].models[0]' }),
        expect.objectContaining({ path: 'fleet.tiers[0].models[1]' }),
      ],
    }),
  );
});

const tier = (id: string, rank: number) => ({ id, rank, models: '*' as const });
test.each<[present: Record<string, number>, listed: string[], ranks: Record<string, number>]>([
  [{}, ['a', 'b'], { a: 0, b: 1 }],
  [{ a: 3, b: 7 }, ['a', 'b'], { a: 3, b: 7 }],
  [{ a: 0, b: 1 }, ['b', 'a'], { b: 1, a: 2 }],
  [{ a: 0, b: 1, c: 2 }, ['a'], { a: 0, b: 1, c: 2 }],
  [{ a: 0, b: 1, c: 2 }, ['b', 'd'], { a: 0, b: 1, c: 2, d: 3 }],
  [{ a: 1000 }, ['a', 'b'], { a: 0, b: 1 }],
])('ranks of %j for a file that lists %j', (present, listed, ranks) => {
  const tiers = Object.entries(present).map(([id, rank]) => tier(id, rank));
  expect(Object.fromEntries(rankTiers(tiers, listed))).toEqual(ranks);
});

const id = fc.stringMatching(/^[a-z0-9-]{1,8}$/);
const model = fc.stringMatching(/^[A-Za-z0-9._:/-]{1,8}$/);
const limit = fc.option(fc.nat(), { nil: undefined });
const limits = { requestsPerMinute: limit, concurrency: limit, contextTokens: limit };
const text = fc
  .string({ minLength: 1, maxLength: 20, unit: 'grapheme' })
  .filter((name) => nameSchema.safeParse(name).success);

/** Fleet documents that are always valid. Undefined members are left out, as in JSON. */
const fleets: fc.Arbitrary<Fleet> = fc
  .record({
    models: fc.uniqueArray(model, { maxLength: 4 }),
    tiers: fc.uniqueArray(fc.stringMatching(/^[A-Z][a-z]{0,5}$/), { maxLength: 4 }),
    organisations: fc.uniqueArray(id, { maxLength: 4 }),
    nodes: fc.uniqueArray(id, { maxLength: 8 }),
    stacks: fc.uniqueArray(fc.stringMatching(/^stk-[a-z]{1,3}-[a-z]{1,3}-[a-z0-9]{1,3}$/), { maxLength: 4 }),
  })
  .chain(({ models, tiers, organisations, nodes, stacks }) => {
    const some = fc.subarray(models);
    const selection = fc.oneof(fc.constant('*' as const), some);
    const place = organisations.length + stacks.length;
    return fc
      .record({
        models: fc.tuple(
          ...models.map((each) =>
            fc.record({
              id: fc.constant(each),
              family: text,
              weight: fc.option(fc.integer({ min: 1, max: 9 }), { nil: undefined }),
            }),
          ),
        ),
        tiers: fc.tuple(
          ...tiers.map((each) =>
            fc.record({ id: fc.constant(each), ...limits, monthlyTokens: limit, models: selection }),
          ),
        ),
        anonymous: fc.option(
          fc.record({
            freeTurns: fc.nat(),
            networkFactor: fc.option(fc.integer({ min: 1, max: 20 }), { nil: undefined }),
            ...limits,
            models: selection,
            total: fc.constantFrom(
              undefined,
              {},
              { tokensPerDay: 5 },
              { requestsPerMinute: 1, concurrency: 2 },
            ),
          }),
          { nil: undefined },
        ),
        pool: some,
        organisations: fc.tuple(
          ...organisations.map((each) =>
            fc.record({
              id: fc.constant(each),
              name: text,
              tier: fc.constantFrom(null, undefined, ...tiers),
              anchor: fc.constantFrom(undefined, '2026-01-31', '2026-11-01'),
              members: fc.uniqueArray(
                fc.record({
                  person: id.filter((person) => person !== 'operator'),
                  role: fc.constantFrom('owner' as const, 'viewer' as const),
                }),
                { selector: ({ person }) => person, maxLength: 3 },
              ),
            }),
          ),
        ),
        nodes: fc.tuple(
          ...nodes.map((each) =>
            fc.record({
              at: fc.nat(place),
              node: fc.record({
                id: fc.constant(each),
                url: fc.nat(65_535).map((port) => `http://127.0.0.1:${port}`),
                dialect: fc.constantFrom('vllm' as const, 'ollama' as const),
                credential: fc.constantFrom(undefined, 'KEY'),
                models: fc.option(fc.dictionary(model, text, { maxKeys: 2, noNullPrototype: true }), {
                  nil: undefined,
                }),
                agent: fc.constantFrom(undefined, true, false),
              }),
            }),
          ),
        ),
        stacks: fc.tuple(
          ...stacks.map((each) =>
            fc.record({
              of: fc.nat(Math.max(organisations.length - 1, 0)),
              stack: fc.record({
                id: fc.constant(each),
                surface: fc.constantFrom(undefined, 'openai' as const, 'anthropic' as const),
                models: some,
              }),
            }),
          ),
        ),
      })
      .map((parts) => {
        const at = (index: number) => parts.nodes.filter((each) => each.at === index).map(({ node }) => node);
        const organised = parts.organisations.map((organisation, index) => ({
          ...organisation,
          nodes: at(index),
          stacks: parts.stacks.flatMap(({ of, stack }, position) =>
            of === index ? [{ ...stack, nodes: at(organisations.length + position) }] : [],
          ),
        }));
        const document = {
          version: 1,
          models: parts.models,
          tiers: parts.tiers,
          anonymous: parts.anonymous,
          pool: { models: parts.pool, nodes: at(place) },
          organisations: organised,
        };
        return fleetSchema.parse(JSON.parse(JSON.stringify(document)));
      });
  });

test('applying any file twice changes nothing the second time', () => {
  fc.assert(
    fc.property(fleets, (fleet) => {
      const state = new TestState();
      apply(state, fleet);
      expect(apply(state, fleet).events).toEqual([]);
    }),
    { numRuns: runs({ fast: 12, full: 40 }) },
  );
});

test('an export applies as unchanged, even with pruning, and recreates the same state elsewhere', () => {
  fc.assert(
    fc.property(fleets, fleets, (one, two) => {
      const state = new TestState();
      apply(state, one);
      try {
        apply(state, two, { force: true });
      } catch {
        // A stack of the first file belongs to another organisation in the second file, which is refused.
      }
      const given = fleetSchema.parse(JSON.parse(JSON.stringify(exportFleet(state.db))));
      expect(apply(state, given).events).toEqual([]);
      expect(apply(state, given, { prune: true }).events).toEqual([]);
      const elsewhere = new TestState();
      apply(elsewhere, given);
      expect(exportFleet(elsewhere.db)).toEqual(exportFleet(state.db));
    }),
    { numRuns: runs({ fast: 12, full: 40 }) },
  );
});

test('with pruning, the state becomes what the file declares, whatever it was before', () => {
  fc.assert(
    fc.property(fleets, fleets, (one, two) => {
      const state = new TestState();
      apply(state, one);
      const stackOwners = new Map(
        one.organisations?.flatMap((each) => (each.stacks ?? []).map((stack) => [stack.id, each.id])),
      );
      const sameHands = two.organisations?.every((each) =>
        (each.stacks ?? []).every((stack) => (stackOwners.get(stack.id) ?? each.id) === each.id),
      );
      fc.pre(sameHands === true);
      // An omitted field means "leave unchanged", so this document sets every field.
      const full = {
        ...two,
        organisations: (two.organisations ?? []).map((each) => ({ ...each, tier: each.tier ?? null })),
      };
      apply(state, full, { prune: true, force: true });
      const ids = (fleet: Fleet) => [
        fleet.models?.map(({ id: each }) => each).sort(),
        fleet.tiers?.map(({ id: each }) => each),
        fleet.organisations?.map(({ id: each }) => each).sort(),
        fleet.organisations
          ?.flatMap(({ stacks, nodes, members }) => [
            stacks?.map((s) => [s.id, [...(s.models ?? [])].sort()]),
            nodes,
            members,
          ])
          .flat(2).length,
      ];
      expect(ids(exportFleet(state.db))).toEqual(ids(full));
      expect(apply(state, full, { prune: true }).events).toEqual([]);
    }),
    { numRuns: runs({ fast: 12, full: 40 }) },
  );
});

test('comparing a file with the state changes nothing', () => {
  const state = new TestState().given(smallFleet);
  const before = dump(state);
  const plan = atOnce(diffFleet(state.db, fleetSchema.parse(whole), { nowMs: testNowMs }));
  expect(plan.changes.length).toBeGreaterThan(0);
  expect(dump(state)).toEqual(before);
});
