import { expect, test } from 'vitest';
import type { KnownEvent } from '../../schemas/events.ts';
import { smallFleet, TestState, testNowMs } from '../../test/support/state.ts';
import { findToken } from '../state/capacity.ts';
import { commandsByName } from './registry.ts';

const stack = 'stk-amber-otter-9k2f';
const node = { id: 'n-1', place: { kind: 'stack', id: stack }, url: 'http://127.0.0.1:1', dialect: 'vllm' };

interface Case {
  readonly name: string;
  readonly params?: object;
  readonly body?: object;
  readonly force?: boolean;
  /** Types of the events, or the type of the refusal. */
  readonly expected: readonly string[] | string;
  readonly given?: readonly KnownEvent[];
}

const drained: KnownEvent = { type: 'node.drained', data: { id: 'pool-1' } };
const token: KnownEvent = {
  type: 'node.token_created',
  data: { id: 'tok-1', node: 'pool-1', hash: 'c'.repeat(64) },
};
const cases: Case[] = [
  {
    name: 'organisation.create',
    body: { id: 'new', name: 'New', tier: 'Starter' },
    expected: ['organisation.set'],
  },
  { name: 'organisation.create', body: { id: 'acme', name: 'Again' }, expected: 'Conflict' },
  { name: 'organisation.create', body: { id: 'new', name: 'New', tier: 'Gold' }, expected: 'NotFound' },
  { name: 'organisation.create', body: { id: 'Bad Id', name: 'New' }, expected: 'InvalidCommand' },
  {
    name: 'organisation.create',
    body: { id: 'new', name: 'New', colour: 'red' },
    expected: 'InvalidCommand',
  },
  { name: 'organisation.update', params: { id: 'acme' }, body: { name: 'Acme' }, expected: [] },
  {
    name: 'organisation.update',
    params: { id: 'acme' },
    body: { tier: null, suspended: true },
    expected: ['organisation.set', 'organisation.suspended'],
  },
  { name: 'organisation.update', params: { id: 'acme' }, body: { suspended: false }, expected: [] },
  { name: 'organisation.update', params: { id: 'nobody' }, body: {}, expected: 'NotFound' },
  { name: 'organisation.delete', params: { id: 'acme' }, expected: ['organisation.removed'] },
  { name: 'organisation.delete', params: { id: 'nobody' }, expected: 'NotFound' },
  {
    name: 'member.set',
    params: { id: 'acme', person: 'bea' },
    body: { role: 'viewer' },
    expected: ['member.set'],
  },
  { name: 'member.set', params: { id: 'acme', person: 'ana' }, body: { role: 'owner' }, expected: [] },
  {
    name: 'member.set',
    params: { id: 'acme', person: 'operator' },
    body: { role: 'owner' },
    expected: 'InvalidCommand',
  },
  {
    name: 'member.set',
    params: { id: 'nobody', person: 'ana' },
    body: { role: 'owner' },
    expected: 'NotFound',
  },
  { name: 'member.remove', params: { id: 'acme', person: 'zoe' }, expected: 'NotFound' },
  { name: 'tier.set', params: { id: 'Gold' }, body: { models: '*' }, expected: ['tier.set'] },
  {
    name: 'tier.set',
    params: { id: 'Starter' },
    body: { requestsPerMinute: 60, models: ['echo-small'] },
    expected: [],
  },
  { name: 'tier.set', params: { id: 'Starter' }, body: { models: ['echo-small'] }, expected: ['tier.set'] },
  { name: 'tier.set', params: { id: 'Starter' }, body: { rank: 1, models: '*' }, expected: 'Conflict' },
  { name: 'tier.set', params: { id: 'Starter' }, body: { models: ['nothing'] }, expected: 'NotFound' },
  { name: 'tier.set', params: { id: 'anonymous' }, body: { models: '*' }, expected: 'InvalidCommand' },
  { name: 'tier.delete', params: { id: 'Starter' }, expected: ['tier.removed'] },
  { name: 'tier.delete', params: { id: 'Platinum' }, expected: 'GuardRefused' },
  {
    name: 'tier.delete',
    params: { id: 'Platinum' },
    force: true,
    expected: ['organisation.set', 'tier.removed'],
  },
  { name: 'tier.delete', params: { id: 'Gold' }, expected: 'NotFound' },
  { name: 'anonymous.set', body: { freeTurns: 3, models: ['echo-small'] }, expected: ['anonymous.set'] },
  {
    name: 'anonymous.set',
    body: { freeTurns: 3, models: ['echo-small'] },
    given: [{ type: 'anonymous.set', data: { freeTurns: 3, models: ['echo-small'] } }],
    expected: [],
  },
  { name: 'usage.adjust', params: { id: 'acme' }, body: { tokens: -5 }, expected: ['usage.adjusted'] },
  { name: 'usage.adjust', params: { id: 'acme' }, body: { tokens: 0 }, expected: [] },
  { name: 'usage.adjust', params: { id: 'nobody' }, body: { tokens: 5 }, expected: 'NotFound' },
  { name: 'model.set', params: { id: 'new/model:1' }, body: { family: 'new' }, expected: ['model.set'] },
  { name: 'model.set', params: { id: 'echo-large' }, body: { family: 'echo' }, expected: [] },
  {
    name: 'model.set',
    params: { id: 'echo-large' },
    body: { family: 'echo', weight: 2 },
    expected: ['model.set'],
  },
  {
    name: 'model.set',
    params: { id: 'echo-large' },
    body: { family: 'echo', affinity: 'none' },
    expected: ['model.set'],
  },
  {
    name: 'model.set',
    params: { id: 'echo-large' },
    body: { family: 'echo', affinity: 'prefix' },
    expected: [],
  },
  { name: 'model.delete', params: { id: 'echo-small' }, expected: 'GuardRefused' },
  {
    name: 'model.delete',
    params: { id: 'echo-small' },
    force: true,
    expected: ['pool.model_uninstalled', 'tier.set', 'model.removed'],
  },
  {
    name: 'model.delete',
    params: { id: 'echo-large' },
    force: true,
    expected: ['stack.model_uninstalled', 'model.removed'],
  },
  { name: 'model.delete', params: { id: 'nothing' }, expected: 'NotFound' },
  { name: 'stack.create', body: { organisation: 'acme' }, expected: ['stack.created'] },
  { name: 'stack.create', body: { organisation: 'acme', id: stack }, expected: 'Conflict' },
  { name: 'stack.create', body: { organisation: 'acme', id: 'my-stack' }, expected: 'InvalidCommand' },
  { name: 'stack.create', body: { organisation: 'nobody' }, expected: 'NotFound' },
  { name: 'stack.delete', params: { id: stack }, expected: ['stack.removed'] },
  { name: 'stack.delete', params: { id: 'stk-a-b-c' }, expected: 'NotFound' },
  {
    name: 'stack.set-surface',
    params: { id: stack },
    body: { surface: 'anthropic' },
    expected: ['stack.surface_set'],
  },
  { name: 'stack.set-surface', params: { id: stack }, body: { surface: 'openai' }, expected: [] },
  { name: 'stack.install', params: { id: stack, model: 'echo-small' }, expected: ['stack.model_installed'] },
  { name: 'stack.install', params: { id: stack, model: 'echo-large' }, expected: [] },
  { name: 'stack.install', params: { id: stack, model: 'nothing' }, expected: 'NotFound' },
  {
    name: 'stack.uninstall',
    params: { id: stack, model: 'echo-large' },
    expected: ['stack.model_uninstalled'],
  },
  { name: 'stack.uninstall', params: { id: stack, model: 'echo-small' }, expected: 'NotFound' },
  { name: 'pool.install', params: { model: 'echo-large' }, expected: ['pool.model_installed'] },
  { name: 'pool.install', params: { model: 'echo-small' }, expected: [] },
  { name: 'pool.install', params: { model: 'nothing' }, expected: 'NotFound' },
  { name: 'pool.uninstall', params: { model: 'echo-small' }, expected: ['pool.model_uninstalled'] },
  { name: 'pool.uninstall', params: { model: 'echo-large' }, expected: 'NotFound' },
  { name: 'node.register', body: node, expected: ['node.registered'] },
  { name: 'node.register', body: { ...node, id: 'pool-1' }, expected: 'Conflict' },
  {
    name: 'node.register',
    body: { ...node, place: { kind: 'stack', id: 'stk-a-b-c' } },
    expected: 'NotFound',
  },
  {
    name: 'node.register',
    body: { ...node, place: { kind: 'organisation', id: 'nobody' } },
    expected: 'NotFound',
  },
  { name: 'node.register', body: { ...node, place: { kind: 'pool', id: 'x' } }, expected: 'InvalidCommand' },
  { name: 'node.register', body: { ...node, url: 'http://user:pass@h' }, expected: 'InvalidCommand' },
  { name: 'node.delete', params: { id: 'pool-1' }, expected: ['node.removed'] },
  { name: 'node.delete', params: { id: 'nothing' }, expected: 'NotFound' },
  { name: 'node.drain', params: { id: 'pool-1' }, expected: ['node.drained'] },
  { name: 'node.drain', params: { id: 'pool-1' }, given: [drained], expected: [] },
  { name: 'node.undrain', params: { id: 'pool-1' }, expected: [] },
  { name: 'node.undrain', params: { id: 'pool-1' }, given: [drained], expected: ['node.undrained'] },
  { name: 'node-token.create', params: { id: 'pool-1' }, expected: ['node.token_created'] },
  { name: 'node-token.create', params: { id: 'nothing' }, expected: 'NotFound' },
  { name: 'token.create', body: { node: 'pool-1' }, expected: ['node.token_created'] },
  { name: 'token.create', body: { node: 'nothing' }, expected: 'NotFound' },
  { name: 'node-token.revoke', params: { id: 'tok-1' }, given: [token], expected: ['node.token_revoked'] },
  {
    name: 'node-token.revoke',
    params: { id: 'tok-1' },
    given: [token, { type: 'node.token_revoked', data: { id: 'tok-1' } }],
    expected: [],
  },
  { name: 'node-token.revoke', params: { id: 'tok-1' }, expected: 'NotFound' },
];

test.each(cases)('$name $params $body: $expected', ({ name, params, body, force, expected, given = [] }) => {
  const state = new TestState().given(smallFleet).given(given);
  const run = () => state.when(name, { params, body }, { force });
  if (typeof expected === 'string') expect(run).toThrow(expect.objectContaining({ type: expected }));
  else {
    expect(run().events.map(({ type }) => type)).toEqual(expected);
    if (expected.length > 0 && !name.match(/delete|remove|create|register|uninstall|undrain|adjust/))
      expect(run().events).toEqual([]);
  }
});

test('a new tier without a rank is above all others', () => {
  const state = new TestState().given(smallFleet);
  expect(state.when('tier.set', { params: { id: 'Gold' }, body: { models: '*' } }).answer).toEqual({
    id: 'Gold',
    rank: 2,
    models: '*',
  });
});

test('a refusal names the users of a resource, and the next step', () => {
  const state = new TestState().given(smallFleet);
  expect(() => state.decide('model.delete', { params: { id: 'echo-small' } })).toThrow(
    expect.objectContaining({
      status: 409,
      message: 'the model echo-small is used by the pool, tier Starter',
      next: expect.stringContaining('uninstall it there first'),
    }),
  );
});

test('a model removed by force leaves nothing that names it', () => {
  const state = new TestState().given(smallFleet);
  state.given([{ type: 'anonymous.set', data: { freeTurns: 1, models: ['echo-small', 'echo-large'] } }]);
  for (const id of ['echo-small', 'echo-large'])
    state.when('model.delete', { params: { id } }, { force: true });
  for (const table of ['tier_model', 'stack_model', 'pool_model']) {
    expect(state.db.prepare(`SELECT model FROM ${table} WHERE model <> '*'`).all()).toEqual([]);
  }
});

test('an organisation without a tier has none, and its period begins on the day of its making', () => {
  const state = new TestState();
  expect(state.when('organisation.create', { body: { id: 'new', name: 'New' } }).answer).toEqual({
    id: 'new',
    name: 'New',
    tier: null,
    anchor: '2026-11-21',
    suspended: false,
  });
});

test('a stack gets an id of the right shape that nobody has', () => {
  const state = new TestState().given(smallFleet);
  let byte = 0;
  // The first id drawn is taken, the second is not.
  const mint = (bytes: number) => new Uint8Array(bytes).fill(Math.floor(byte++ / 4));
  const first = state.when('stack.create', { body: { organisation: 'acme' } }, { mint }).answer['id'];
  byte = 0;
  const second = state.when('stack.create', { body: { organisation: 'acme' } }, { mint }).answer['id'];
  expect(first).toMatch(/^stk-[a-z]+-[a-z]+-[a-z0-9]+$/);
  expect(second).toMatch(/^stk-[a-z]+-[a-z]+-[a-z0-9]+$/);
  expect(second).not.toBe(first);
});

test('a random source that gives one id only ends in a refusal, not in a loop', () => {
  const state = new TestState().given(smallFleet);
  const mint = (bytes: number) => new Uint8Array(bytes);
  state.when('stack.create', { body: { organisation: 'acme' } }, { mint });
  expect(() => state.decide('stack.create', { body: { organisation: 'acme' } }, { mint })).toThrow(
    expect.objectContaining({ type: 'Conflict' }),
  );
});

test("a token's value is in the answer once, and the event holds its hash only", () => {
  const state = new TestState().given(smallFleet);
  const { events, answer } = state.when('node-token.create', { params: { id: 'pool-1' } });
  expect(answer).toMatchObject({
    node: 'pool-1',
    state: 'active',
    value: expect.stringMatching(/^ngt_[\w-]{43}$/),
  });
  expect(JSON.stringify(events)).not.toContain(answer['value']);
});

test('tokens of many nodes are one command: all of them or none, and a repeat has their ids', () => {
  const state = new TestState().given(smallFleet);
  const items = Array.from({ length: 3 }, () => ({ node: 'pool-1' }));
  const { events, answer } = state.when('token.create', { body: { items } });
  const made = answer['items'] as { readonly id: string; readonly node: string; readonly value: string }[];
  expect(events.map(({ data }) => (data as { id: string }).id)).toEqual(made.map(({ id }) => id));
  expect(new Set(made.map(({ value }) => value)).size).toBe(3);
  for (const { id, value } of made) {
    expect(value).toMatch(/^ngt_[\w-]{43}$/);
    expect(JSON.stringify(events)).not.toContain(value);
    expect(findToken(state.db, id)).toMatchObject({ node: 'pool-1', state: 'active' });
  }
  const command = commandsByName['token.create'].many;
  const again = command?.show(state.db, { params: {}, body: { items } }, made[0]?.id, testNowMs);
  expect(again).toEqual({ items: made.map(({ id, node: of }) => ({ id, node: of })) });
  const other = { body: { items: [...items, { node: 'nothing' }] } };
  expect(() => state.decide('token.create', other)).toThrow(/^items\[3\]\.node: there is no node nothing$/);
  const tooMany = { body: { items: Array.from({ length: 1001 }, () => ({ node: 'pool-1' })) } };
  expect(() => state.decide('token.create', tooMany)).toThrow(/body cannot be used/);
});

test('a node shows its place, its names for models and its health', () => {
  const state = new TestState().given(smallFleet);
  const body = { ...node, credential: 'KEY', models: { 'echo-large': 'served' }, agent: true };
  expect(state.when('node.register', { body }).answer).toEqual({
    ...body,
    drained: false,
    up: false,
    loaded: [],
    generation: 0,
  });
});
