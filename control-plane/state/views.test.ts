import { expect, test } from 'vitest';
import { smallFleet, TestState, testNowMs } from '../../test/support/state.ts';
import { findNode, findPool, findStack, findToken, listNodes, listStacks, tokenListing } from './capacity.ts';
import { findAnonymous, listTiers } from './catalog.ts';
import { listPage } from './list-page.ts';
import { findKey, keyListing, listMembers, listOrganisations } from './tenants.ts';

test('lists are sorted, and a limit truncates them', () => {
  const { db } = new TestState().given(smallFleet);
  expect(listOrganisations(db).map(({ id }) => id)).toEqual(['acme', 'other']);
  expect(listOrganisations(db, 1).map(({ id }) => id)).toEqual(['acme']);
  expect(listTiers(db).map(({ id }) => id)).toEqual(['Starter', 'Platinum']);
  const keys = (query: object) =>
    listPage(db, keyListing, { nowMs: testNowMs, ...query }).items.map(({ id }) => id);
  expect(keys({})).toEqual(['key-acme', 'key-other']);
  expect(keys({ owner: 'other' })).toEqual(['key-other']);
  expect(keys({ limit: 1 })).toEqual(['key-acme']);
  expect(listMembers(db)).toHaveLength(2);
  expect(listMembers(db, 'acme')).toEqual([{ organisation: 'acme', person: 'ana', role: 'owner' }]);
  expect(listStacks(db, 'other')).toEqual([]);
  expect(listNodes(db)).toHaveLength(1);
});

test('visitors are not a tier, and have no limits until some are set', () => {
  const state = new TestState().given(smallFleet);
  expect(findAnonymous(state.db)).toBeUndefined();
  state.given([{ type: 'anonymous.set', data: { freeTurns: 3, concurrency: 1, models: '*' } }]);
  expect(findAnonymous(state.db)).toEqual({ freeTurns: 3, concurrency: 1, models: '*' });
  expect(listTiers(state.db)).toHaveLength(2);
});

test('a stack and the pool show their installs and nodes', () => {
  const state = new TestState().given(smallFleet);
  const id = 'stk-amber-otter-9k2f';
  expect(findStack(state.db, id)).toEqual({
    id,
    organisation: 'acme',
    surface: 'openai',
    models: ['echo-large'],
    nodes: [],
  });
  expect(findPool(state.db)).toEqual({ models: ['echo-small'], nodes: ['pool-1'] });
});

test('a node shows its owner and health once they are known', () => {
  const state = new TestState().given(smallFleet);
  state.given([
    { type: 'node.joined', data: { id: 'pool-1', owner: 'cp-a', generation: 1 } },
    {
      type: 'node.health_changed',
      data: { id: 'pool-1', owner: 'cp-a', generation: 1, up: true, models: ['b', 'a'], reason: 'joined' },
    },
  ]);
  expect(findNode(state.db, 'pool-1')).toEqual({
    id: 'pool-1',
    place: { kind: 'pool' },
    url: 'http://127.0.0.1:9001',
    dialect: 'vllm',
    agent: false,
    drained: false,
    up: true,
    loaded: ['a', 'b'],
    owner: 'cp-a',
    generation: 1,
    reason: 'joined',
    changedAt: '2026-11-21T00:00:00.000Z',
  });
});

test('a node that is up shows which of its models rerank', () => {
  const state = new TestState().given(smallFleet);
  const health = { id: 'pool-1', owner: 'cp-a', generation: 1, models: ['a', 'b'], rerankModels: ['b'] };
  state.given([
    { type: 'node.joined', data: { id: 'pool-1', owner: 'cp-a', generation: 1 } },
    { type: 'node.health_changed', data: { ...health, up: true } },
  ]);
  expect(findNode(state.db, 'pool-1')).toMatchObject({ loaded: ['a', 'b'], rerankModels: ['b'] });
  state.given([{ type: 'node.health_changed', data: { ...health, up: false } }]);
  expect(findNode(state.db, 'pool-1')).not.toHaveProperty('rerankModels');
});

test('no resource shows a hash', () => {
  const state = new TestState().given(smallFleet);
  const hash = 'c'.repeat(64);
  state.given([{ type: 'node.token_created', data: { id: 'tok-1', node: 'pool-1', hash } }]);
  expect(listPage(state.db, tokenListing, { nowMs: 0, owner: 'pool-1' }).items).toEqual([
    { id: 'tok-1', node: 'pool-1', createdAt: '2026-11-21T00:00:00.000Z', state: 'active' },
  ]);
  expect(findToken(state.db, 'tok-1')).not.toHaveProperty('hash');
  expect(findKey(state.db, 'key-acme', testNowMs)).not.toHaveProperty('hash');
});

test('a revocation of a key that was never created does not appear as a key', () => {
  const state = new TestState().given([{ type: 'key.revoked', data: { id: 'key-early' } }]);
  expect(findKey(state.db, 'key-early', testNowMs)).toBeUndefined();
  expect(listPage(state.db, keyListing, { nowMs: testNowMs }).items).toEqual([]);
});

test('two databases do not share prepared statements', () => {
  const one = new TestState().given(smallFleet);
  const two = new TestState();
  expect(listOrganisations(one.db)).toHaveLength(2);
  expect(listOrganisations(two.db)).toHaveLength(0);
});
