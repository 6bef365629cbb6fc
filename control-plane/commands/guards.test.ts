import { expect, test } from 'vitest';
import { dayMs } from '../../schemas/durations.ts';
import type { KnownEvent } from '../../schemas/events/events.ts';
import { boundDefaults } from '../../schemas/shapes.ts';
import { atOnce } from '../../shared/runtime/slices.ts';
import { smallFleet, TestState, testNowMs } from '../../test/support/state.ts';
import { cardinalityLimits } from './counted-events.ts';
import { checkCardinality as cardinality } from './guards.ts';

const checkCardinality = (...of: Parameters<typeof cardinality>) => atOnce(cardinality(...of));

function keys(organisation: string, count: number): KnownEvent[] {
  return Array.from({ length: count }, (_, index) => ({
    type: 'key.created',
    data: {
      id: `key-${organisation}-${index}`,
      organisation,
      name: 'k',
      hash: Buffer.from(`${organisation}-${index}`).toString('hex').padStart(64, '0'),
      expires: 'never',
      expiresAt: null,
    },
  }));
}

function nodes(place: 'pool' | 'acme', count: number): KnownEvent[] {
  return Array.from({ length: count }, (_, index) => ({
    type: 'node.registered',
    data: {
      id: `${place}-n-${index}`,
      place: place === 'pool' ? { kind: 'pool' } : { kind: 'stack', id: 'stk-amber-otter-9k2f' },
      url: 'http://127.0.0.1:1',
      dialect: 'vllm',
      agent: false,
    },
  }));
}

// The small fleet adds one key in each of two organisations, and one node in the pool.
test.each<[claim: string, given: KnownEvent[], refused: boolean]>([
  ['9 keys of 10', keys('acme', 8), false],
  ['10 keys of 11', keys('acme', 9), true],
  ['10 keys of 100', [...keys('acme', 9), ...keys('other', 89)], false],
  ['10 keys of 99', [...keys('acme', 9), ...keys('other', 88)], true],
  ['10 nodes of 11, in its stack', nodes('acme', 10), true],
  ['10 nodes of 100, in its stack', [...nodes('acme', 10), ...nodes('pool', 89)], false],
  ['9 nodes of 10, in its stack', nodes('acme', 9), false],
])('whether removing an organisation with %s needs force: %s', (_claim, given, refused) => {
  const state = new TestState().given(smallFleet).given(given);
  const text = { params: { id: 'acme' } };
  const decide = () => state.decide('organisation.delete', text);
  if (refused) expect(decide).toThrow(expect.objectContaining({ type: 'GuardRefused', status: 409 }));
  else expect(decide().events).toHaveLength(1);
  expect(state.decide('organisation.delete', text, { force: true }).events).toHaveLength(1);
});

test('revoking one key never needs force, even if it is the only one', () => {
  const state = new TestState().given(smallFleet).given(keys('acme', 20));
  for (let index = 0; index < 20; index++)
    expect(state.when('key.revoke', { params: { id: `key-acme-${index}` } }).events).toHaveLength(1);
});

test('pruning that empties the fleet needs force', () => {
  const state = new TestState().given(smallFleet).given(nodes('pool', 20));
  const text = { body: { fleet: { version: 1 }, prune: true } };
  expect(() => state.decide('fleet.apply', text)).toThrow(expect.objectContaining({ type: 'GuardRefused' }));
  state.when('fleet.apply', text, { force: true });
  for (const table of ['organisation', 'member', 'api_key', 'stack', 'node', 'model', 'tier', 'pool_model'])
    expect(state.db.prepare(`SELECT * FROM ${table}`).all()).toEqual([]);
});

test('nodes that move out of a removed resource do not count as removed', () => {
  const state = new TestState().given(smallFleet).given(nodes('acme', 20));
  const moved = nodes('acme', 20).map(({ data }) => {
    const { id, url, dialect } = data as { id: string; url: string; dialect: string };
    return { id, url, dialect };
  });
  const fleet = { version: 1, pool: { nodes: moved } };
  state.when('fleet.apply', { body: { fleet, prune: true } });
  expect(state.db.prepare(`SELECT count(*) AS n FROM node WHERE place = 'pool'`).get()).toEqual({ n: 20 });
});

const limits = { ...cardinalityLimits, ...boundDefaults };

test.each<[limit: keyof typeof limits, fill: string, event: KnownEvent]>([
  [
    'organisations',
    `INSERT INTO organisation (id, suspended) SELECT 'o-' || n, 0 FROM n`,
    { type: 'organisation.set', data: { id: 'one-more', name: 'M', tier: null, anchor: '2026-11-01' } },
  ],
  [
    'activeKeysPerOrganisation',
    `INSERT INTO api_key (id, organisation) SELECT 'k-' || n, 'acme' FROM n`,
    keys('acme', 1)[0]!,
  ],
  [
    'keysPerOrganisation',
    `INSERT INTO api_key (id, organisation, revoked_at) SELECT 'k-' || n, 'acme', 1 FROM n`,
    keys('acme', 1)[0]!,
  ],
  [
    'nodes',
    `INSERT INTO node (id, place, agent, drained, up, generation, loaded) SELECT 'n-' || n, 'pool', 0, 0, 0, 0, '[]' FROM n`,
    nodes('pool', 1)[0]!,
  ],
  [
    'stacksPerOrganisation',
    `INSERT INTO stack (id, organisation) SELECT 's-' || n, 'acme' FROM n`,
    { type: 'stack.created', data: { id: 'stk-a-b-c', organisation: 'acme', surface: 'openai' } },
  ],
  [
    'models',
    `INSERT INTO model (id) SELECT 'm-' || n FROM n`,
    {
      type: 'model.set',
      data: { id: 'one-more', family: 'f', added: '2026-01-01T00:00:00.000Z', weight: 1 },
    },
  ],
  [
    'tiers',
    `INSERT INTO tier (id, rank) SELECT 't-' || n, n FROM n`,
    { type: 'tier.set', data: { id: 'one-more', rank: 999, models: '*' } },
  ],
  [
    'membersPerOrganisation',
    `INSERT INTO member (organisation, person) SELECT 'acme', 'p-' || n FROM n`,
    { type: 'member.set', data: { organisation: 'acme', person: 'one-more', role: 'viewer' } },
  ],
  [
    'tokensPerNode',
    `INSERT INTO node_token (id, node) SELECT 't-' || n, 'pool-1' FROM n`,
    { type: 'node.token_created', data: { id: 'tok-1', node: 'pool-1', hash: 'd'.repeat(64) } },
  ],
])('the last of %s is accepted, and one more is refused', (limit, fill, event) => {
  const state = new TestState();
  const series = `WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?)`;
  // Inserts the WITH clause before SELECT, because in an INSERT statement it must stand there.
  const sql = fill.replace('SELECT', `${series} SELECT`);
  state.db.prepare(sql).run(limits[limit] - 1);
  state.countKeys();
  checkCardinality(state.db, [event], testNowMs);
  state.given([event]);
  const another = JSON.parse(
    JSON.stringify(event).replaceAll(/one-more|tok-1|stk-a-b-c|key-acme-0|pool-n-0/g, 'stk-x-y-z'),
  );
  expect(() => checkCardinality(state.db, [another], testNowMs)).toThrow(
    expect.objectContaining({ type: 'Conflict', message: expect.stringContaining(limit) }),
  );
});

test('several additions in one command are counted together', () => {
  const state = new TestState().given(smallFleet);
  const stacks = Array.from({ length: cardinalityLimits.stacksPerOrganisation }, (_, index) => ({
    type: 'stack.created' as const,
    data: { id: `stk-a-b-${index}`, organisation: 'acme', surface: 'openai' as const },
  }));
  expect(() => checkCardinality(state.db, stacks, testNowMs)).toThrow(/stacksPerOrganisation/);
  checkCardinality(state.db, stacks.slice(1), testNowMs);
});

test('the fleet’s own bounds replace the defaults', () => {
  const state = new TestState().given(smallFleet);
  state.when('bounds.set', { body: { activeKeysPerOrganisation: 3, keysPerOrganisation: 4 } });
  checkCardinality(state.db, keys('acme', 2), testNowMs);
  expect(() => checkCardinality(state.db, keys('acme', 3), testNowMs)).toThrow(
    /activeKeys\w+ \(acme\) may be at most 3/,
  );
  state.when('bounds.set', { body: { keysPerOrganisation: 3 } });
  expect(() => checkCardinality(state.db, keys('acme', 3), testNowMs)).toThrow(
    /keysPer\w+ \(acme\) may be at most 3/,
  );
  state.when('bounds.set', { body: {} });
  checkCardinality(state.db, keys('acme', 100), testNowMs);
});

test('revoked and expired keys leave room for new keys of their organisation', () => {
  const state = new TestState().given(smallFleet);
  const series = 'WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 10000)';
  state.db.exec(
    `INSERT INTO api_key (id, organisation, expires_at) ${series} SELECT 'k-' || n, 'acme', ${testNowMs} FROM n`,
  );
  state.countKeys();
  checkCardinality(state.db, keys('acme', 1), testNowMs);
  const aMomentBefore = () => checkCardinality(state.db, keys('acme', 1), testNowMs - 1);
  expect(aMomentBefore).toThrow(/activeKeysPerOrganisation/);
  state.db.exec('UPDATE api_key SET revoked_at = 1');
  state.countKeys();
  expect(aMomentBefore).not.toThrow();
});

test('only active keys count towards the fleet’s bound, and the refusal says how to make room', () => {
  const state = new TestState().given(smallFleet);
  const today = Math.floor(testNowMs / dayMs);
  const there = (day: number, count: number) => {
    state.countKeys();
    state.db.prepare('DELETE FROM key_count WHERE organisation = ?').run('');
    state.db.prepare(`INSERT INTO key_count VALUES ('', ?, ?)`).run(day, count);
  };
  there(today - 1, cardinalityLimits.keys);
  checkCardinality(state.db, keys('acme', 1), testNowMs);
  there(today, cardinalityLimits.keys - 1);
  checkCardinality(state.db, keys('acme', 1), testNowMs);
  const two = () => checkCardinality(state.db, keys('acme', 2), testNowMs);
  const next = 'revoke unused keys: revoked and expired keys do not count';
  expect(two).toThrow(expect.objectContaining({ type: 'Conflict', next }));
  // One of the keys that end today has already ended. Keys are checked one by one only once the bound is reached.
  state.db.prepare(`UPDATE api_key SET revoked_at = ? WHERE id = 'key-other'`).run(testNowMs);
  expect(two).not.toThrow();
});

test('each bound says how to make room, and the advice about keys works', () => {
  const state = new TestState().given(smallFleet);
  state.when('bounds.set', { body: { activeKeysPerOrganisation: 2, keysPerOrganisation: 2 } });
  const { id } = state.when('key.create', {
    body: { organisation: 'acme', name: 'k', expires: '90d' },
  }).answer;
  const another = (context = {}) =>
    state.when('key.create', { body: { organisation: 'acme', name: 'k', expires: '90d' } }, context);
  expect(another).toThrow(expect.objectContaining({ next: expect.stringContaining('revoke keys') }));
  state.when('key.revoke', { params: { id } });
  // A revoked key counts as a stored key until it is forgotten.
  expect(another).toThrow(expect.objectContaining({ next: expect.stringContaining('--forget-keys-after') }));
  state.given([{ type: 'key.forgotten', data: { id: String(id), organisation: 'acme', name: 'k' } }]);
  expect(another).not.toThrow();
});
