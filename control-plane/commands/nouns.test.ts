import { expect, test } from 'vitest';
import type { KnownEvent } from '../../schemas/events/events.ts';
import { smallFleet, TestState, testNowMs } from '../../test/support/state.ts';
import { findToken } from '../state/capacity.ts';
import { commandsByName } from './registry.ts';

const stack = 'stk-amber-otter-9k2f';
const node = { id: 'n-1', place: { kind: 'stack', id: stack }, url: 'http://127.0.0.1:1', dialect: 'vllm' };

interface Input {
  readonly params?: object;
  readonly body?: object;
  readonly force?: boolean;
  readonly given?: readonly KnownEvent[];
}
/** A test case. `expected` is the list of event types, or the type of the refusal. */
type Case = readonly [name: string, input: Input, expected: readonly string[] | string];

const drained: KnownEvent = { type: 'node.drained', data: { id: 'pool-1' } };
/** Returns the events of a fleet in which `pool-1` and, if given, a second node serve the pool's only model. */
function serving(...second: readonly string[]): KnownEvent[] {
  return ['pool-1', ...second].flatMap((id): KnownEvent[] => {
    const own = { id, owner: 'control-1', generation: 1 };
    const url = 'http://127.0.0.1:9002';
    const registered = { id, place: { kind: 'pool' as const }, url, dialect: 'vllm' as const, agent: false };
    return [
      ...(id === 'pool-1' ? [] : [{ type: 'node.registered' as const, data: registered }]),
      { type: 'node.joined', data: own },
      { type: 'node.health_changed', data: { ...own, up: true, models: ['echo-small', 'not-installed'] } },
    ];
  });
}
const token: KnownEvent = {
  type: 'node.token_created',
  data: { id: 'tok-1', node: 'pool-1', hash: 'c'.repeat(64) },
};
const cases: Case[] = [
  ['organisation.create', { body: { id: 'new', name: 'New', tier: 'Starter' } }, ['organisation.set']],
  ['organisation.create', { body: { id: 'acme', name: 'Again' } }, 'Conflict'],
  ['organisation.create', { body: { id: 'new', name: 'New', tier: 'Gold' } }, 'NotFound'],
  ['organisation.create', { body: { id: 'Bad Id', name: 'New' } }, 'InvalidCommand'],
  ['organisation.create', { body: { id: 'new', name: 'New', colour: 'red' } }, 'InvalidCommand'],
  ['organisation.update', { params: { id: 'acme' }, body: { name: 'Acme' } }, []],
  [
    'organisation.update',
    { params: { id: 'acme' }, body: { tier: null, suspended: true } },
    ['organisation.set', 'organisation.suspended'],
  ],
  ['organisation.update', { params: { id: 'acme' }, body: { suspended: false } }, []],
  ['organisation.update', { params: { id: 'nobody' }, body: {} }, 'NotFound'],
  ['organisation.delete', { params: { id: 'acme' } }, ['organisation.removed']],
  ['organisation.delete', { params: { id: 'nobody' } }, 'NotFound'],
  ['member.set', { params: { id: 'acme', person: 'bea' }, body: { role: 'viewer' } }, ['member.set']],
  ['member.set', { params: { id: 'acme', person: 'ana' }, body: { role: 'owner' } }, []],
  ['member.set', { params: { id: 'acme', person: 'operator' }, body: { role: 'owner' } }, 'InvalidCommand'],
  ['member.set', { params: { id: 'nobody', person: 'ana' }, body: { role: 'owner' } }, 'NotFound'],
  ['member.remove', { params: { id: 'acme', person: 'zoe' } }, 'NotFound'],
  ['tier.set', { params: { id: 'Gold' }, body: { models: '*' } }, ['tier.set']],
  ['tier.set', { params: { id: 'Starter' }, body: { requestsPerMinute: 60, models: ['echo-small'] } }, []],
  ['tier.set', { params: { id: 'Starter' }, body: { models: ['echo-small'] } }, ['tier.set']],
  ['tier.set', { params: { id: 'Starter' }, body: { rank: 1, models: '*' } }, 'Conflict'],
  ['tier.set', { params: { id: 'Starter' }, body: { models: ['nothing'] } }, 'NotFound'],
  ['tier.set', { params: { id: 'anonymous' }, body: { models: '*' } }, 'InvalidCommand'],
  ['tier.delete', { params: { id: 'Starter' } }, ['tier.removed']],
  ['tier.delete', { params: { id: 'Platinum' } }, 'GuardRefused'],
  ['tier.delete', { params: { id: 'Platinum' }, force: true }, ['organisation.set', 'tier.removed']],
  ['tier.delete', { params: { id: 'Gold' } }, 'NotFound'],
  ['tier.delete', { params: { id: 'anonymous' } }, 'NotFound'],
  [
    'tier.delete',
    {
      params: { id: 'anonymous' },
      given: [{ type: 'anonymous.set', data: { freeTurns: 3, models: ['echo-small'] } }],
    },
    ['anonymous.removed'],
  ],
  ['anonymous.set', { body: { freeTurns: 3, models: ['echo-small'] } }, ['anonymous.set']],
  [
    'anonymous.set',
    {
      body: { freeTurns: 3, models: ['echo-small'] },
      given: [{ type: 'anonymous.set', data: { freeTurns: 3, models: ['echo-small'] } }],
    },
    [],
  ],
  ['usage.adjust', { params: { id: 'acme' }, body: { tokens: -5 } }, ['usage.adjusted']],
  ['usage.adjust', { params: { id: 'acme' }, body: { tokens: 0 } }, []],
  ['usage.adjust', { params: { id: 'nobody' }, body: { tokens: 5 } }, 'NotFound'],
  ['model.set', { params: { id: 'new/model:1' }, body: { family: 'new' } }, ['model.set']],
  ['model.set', { params: { id: 'echo-large' }, body: { family: 'echo' } }, []],
  ['model.set', { params: { id: 'echo-large' }, body: { family: 'echo', weight: 2 } }, ['model.set']],
  ['model.set', { params: { id: 'echo-large' }, body: { family: 'echo', affinity: 'none' } }, ['model.set']],
  ['model.set', { params: { id: 'echo-large' }, body: { family: 'echo', affinity: 'prefix' } }, []],
  ['model.delete', { params: { id: 'echo-small' } }, 'GuardRefused'],
  [
    'model.delete',
    { params: { id: 'echo-small' }, force: true },
    ['pool.model_uninstalled', 'tier.set', 'model.removed'],
  ],
  [
    'model.delete',
    { params: { id: 'echo-large' }, force: true },
    ['stack.model_uninstalled', 'model.removed'],
  ],
  ['model.delete', { params: { id: 'nothing' } }, 'NotFound'],
  ['stack.create', { body: { organisation: 'acme' } }, ['stack.created']],
  ['stack.create', { body: { organisation: 'acme', id: stack } }, 'Conflict'],
  ['stack.create', { body: { organisation: 'acme', id: 'my-stack' } }, 'InvalidCommand'],
  ['stack.create', { body: { organisation: 'nobody' } }, 'NotFound'],
  ['stack.delete', { params: { id: stack } }, ['stack.removed']],
  ['stack.delete', { params: { id: 'stk-a-b-c' } }, 'NotFound'],
  ['stack.set-surface', { params: { id: stack }, body: { surface: 'anthropic' } }, ['stack.surface_set']],
  ['stack.set-surface', { params: { id: stack }, body: { surface: 'openai' } }, []],
  ['stack.install', { params: { id: stack, model: 'echo-small' } }, ['stack.model_installed']],
  ['stack.install', { params: { id: stack, model: 'echo-large' } }, []],
  ['stack.install', { params: { id: stack, model: 'nothing' } }, 'NotFound'],
  ['stack.uninstall', { params: { id: stack, model: 'echo-large' } }, ['stack.model_uninstalled']],
  ['stack.uninstall', { params: { id: stack, model: 'echo-small' } }, 'NotFound'],
  ['pool.install', { params: { model: 'echo-large' } }, ['pool.model_installed']],
  ['pool.install', { params: { model: 'echo-small' } }, []],
  ['pool.install', { params: { model: 'nothing' } }, 'NotFound'],
  ['pool.uninstall', { params: { model: 'echo-small' } }, ['pool.model_uninstalled']],
  ['pool.uninstall', { params: { model: 'echo-large' } }, 'NotFound'],
  ['node.register', { body: node }, ['node.registered']],
  ['node.register', { body: { ...node, id: 'pool-1' } }, 'Conflict'],
  ['node.register', { body: { ...node, place: { kind: 'stack', id: 'stk-a-b-c' } } }, 'NotFound'],
  ['node.register', { body: { ...node, place: { kind: 'organisation', id: 'nobody' } } }, 'NotFound'],
  ['node.register', { body: { ...node, place: { kind: 'pool', id: 'x' } } }, 'InvalidCommand'],
  ['node.register', { body: { ...node, url: 'http://user:pass@h' } }, 'InvalidCommand'],
  ['node.delete', { params: { id: 'pool-1' } }, ['node.removed']],
  ['node.delete', { params: { id: 'nothing' } }, 'NotFound'],
  ['node.drain', { params: { id: 'pool-1' } }, ['node.drained']],
  ['node.drain', { params: { id: 'pool-1' }, given: [drained] }, []],
  ['node.drain', { params: { id: 'pool-1' }, given: serving() }, 'GuardRefused'],
  ['node.drain', { params: { id: 'pool-1' }, given: serving(), force: true }, ['node.drained']],
  ['node.drain', { params: { id: 'pool-1' }, given: serving('pool-2') }, ['node.drained']],
  ['node.undrain', { params: { id: 'pool-1' } }, []],
  ['node.undrain', { params: { id: 'pool-1' }, given: [drained] }, ['node.undrained']],
  ['node-token.create', { params: { id: 'pool-1' } }, ['node.token_created']],
  ['node-token.create', { params: { id: 'nothing' } }, 'NotFound'],
  ['token.create', { body: { node: 'pool-1' } }, ['node.token_created']],
  ['token.create', { body: { node: 'nothing' } }, 'NotFound'],
  ['node-token.revoke', { params: { id: 'tok-1' }, given: [token] }, ['node.token_revoked']],
  [
    'node-token.revoke',
    { params: { id: 'tok-1' }, given: [token, { type: 'node.token_revoked', data: { id: 'tok-1' } }] },
    [],
  ],
  ['node-token.revoke', { params: { id: 'tok-1' } }, 'NotFound'],
];

test.each(cases)('%s %j: %j', (name, { params, body, force, given = [] }, expected) => {
  const state = new TestState().given(smallFleet).given(given);
  const run = () => state.when(name, { params, body }, { force });
  if (typeof expected === 'string') expect(run).toThrow(expect.objectContaining({ type: expected }));
  else {
    expect(run().events.map(({ type }) => type)).toEqual(expected);
    if (expected.length > 0 && !name.match(/delete|remove|create|register|uninstall|undrain|adjust/))
      expect(run().events).toEqual([]);
  }
});

test('a new tier without a rank comes above all others', () => {
  const state = new TestState().given(smallFleet);
  expect(state.when('tier.set', { params: { id: 'Gold' }, body: { models: '*' } }).answer).toEqual({
    id: 'Gold',
    rank: 2,
    models: '*',
  });
});

test('a refusal names the resource’s users and the next step', () => {
  const state = new TestState().given(smallFleet);
  expect(() => state.decide('model.delete', { params: { id: 'echo-small' } })).toThrow(
    expect.objectContaining({
      status: 409,
      message: 'the model echo-small is used by the pool, tier Starter',
      next: expect.stringContaining('uninstall it there first'),
    }),
  );
});

test('removing a model by force leaves nothing that names it', () => {
  const state = new TestState().given(smallFleet);
  state.given([{ type: 'anonymous.set', data: { freeTurns: 1, models: ['echo-small', 'echo-large'] } }]);
  for (const id of ['echo-small', 'echo-large'])
    state.when('model.delete', { params: { id } }, { force: true });
  for (const table of ['tier_model', 'stack_model', 'pool_model']) {
    expect(state.db.prepare(`SELECT model FROM ${table} WHERE model <> '*'`).all()).toEqual([]);
  }
});

test('an organisation without a tier has none, and its period begins on the day of its creation', () => {
  const state = new TestState();
  expect(state.when('organisation.create', { body: { id: 'new', name: 'New' } }).answer).toEqual({
    id: 'new',
    name: 'New',
    tier: null,
    anchor: '2026-11-21',
    suspended: false,
  });
});

test('a stack gets an unused id of the right shape', () => {
  const state = new TestState().given(smallFleet);
  let byte = 0;
  // Repeats its values once `byte` is reset, so that the second stack is first offered the id of the first stack.
  const mint = (bytes: number) => new Uint8Array(bytes).fill(Math.floor(byte++ / 4));
  const first = state.when('stack.create', { body: { organisation: 'acme' } }, { mint }).answer['id'];
  byte = 0;
  const second = state.when('stack.create', { body: { organisation: 'acme' } }, { mint }).answer['id'];
  expect(first).toMatch(/^stk-[a-z]+-[a-z]+-[a-z0-9]+$/);
  expect(second).toMatch(/^stk-[a-z]+-[a-z]+-[a-z0-9]+$/);
  expect(second).not.toBe(first);
});

test('a random source that repeats one id leads to a refusal, not to a loop', () => {
  const state = new TestState().given(smallFleet);
  const mint = (bytes: number) => new Uint8Array(bytes);
  state.when('stack.create', { body: { organisation: 'acme' } }, { mint });
  expect(() => state.decide('stack.create', { body: { organisation: 'acme' } }, { mint })).toThrow(
    expect.objectContaining({ type: 'Conflict' }),
  );
});

test('a token’s value appears once, in the response, and the event contains only its hash', () => {
  const state = new TestState().given(smallFleet);
  const { events, answer } = state.when('node-token.create', { params: { id: 'pool-1' } });
  expect(answer).toMatchObject({
    node: 'pool-1',
    state: 'active',
    value: expect.stringMatching(/^ngt_[\w-]{43}$/),
  });
  expect(JSON.stringify(events)).not.toContain(answer['value']);
});

test('tokens for many nodes are one command: all or none, and a repeat returns their ids', () => {
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
  expect(() => state.decide('token.create', tooMany)).toThrow(/body is not valid/);
});

test('a node shows its place, its model names and its health', () => {
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
