import { expect, test } from 'vitest';
import { hashKey, type KeyText } from '../../shared/ids/api-key.ts';
import { smallFleet, TestState, testNowMs } from '../../test/support/state.ts';
import { findKey } from '../state/tenants.ts';
import { expiresAtMs, keyCommands } from './keys.ts';

const create = { body: { organisation: 'acme', name: 'laptop', expires: 'never' } };
const revoke = { params: { id: 'key-acme' } };

test('another organisation’s key and a nonexistent key are refused alike', () => {
  const state = new TestState().given(smallFleet);
  const refusals = ['key-other', 'key-nowhere'].map((id) => {
    try {
      state.decide('key.revoke', { params: { id } }, { actor: { person: 'ana' } });
      return undefined;
    } catch (error) {
      return JSON.stringify((error as { envelope(path: string): object }).envelope('/'));
    }
  });
  expect(refusals[0]).toBeDefined();
  expect(refusals[0]).toBe(refusals[1]);
});

test('a dry run shows no value, because no key will be created', () => {
  const state = new TestState().given(smallFleet);
  expect(state.decide('key.create', create, { dryRun: true }).result()).not.toHaveProperty('value');
});

test.each([
  ['never', null],
  ['30d', '2026-12-21T00:00:00.000Z'],
  ['90d', '2027-02-19T00:00:00.000Z'],
  ['1y', '2027-11-21T00:00:00.000Z'],
])('Limits 6: a key with expiry %s created on 2026-11-21 expires at %s', (expires, expiresAt) => {
  const state = new TestState().given(smallFleet);
  const { answer } = state.when('key.create', { body: { ...create.body, expires } });
  expect(answer).toMatchObject({ expires, expiresAt });
});

test.each(['1d', '', null, 30, undefined])('Limits 6: %j is not an expiry choice', (expires) => {
  const state = new TestState().given(smallFleet);
  expect(() => state.decide('key.create', { body: { ...create.body, expires } })).toThrow(
    expect.objectContaining({ type: 'InvalidCommand' }),
  );
});

test('a year after 29 February ends on 1 March', () => {
  expect(expiresAtMs('1y', Date.UTC(2028, 1, 29))).toBe(Date.UTC(2029, 2, 1));
});

test('revoking is final, and revoking again changes nothing', () => {
  const state = new TestState().given(smallFleet);
  const { answer } = state.when('key.revoke', revoke, { actor: { person: 'ana' } });
  expect(answer).toMatchObject({ id: 'key-acme', state: 'revoked', revokedBy: 'ana' });
  expect(answer['revokedAt']).toBe('2026-11-21T00:00:00.000Z');
  expect(state.when('key.revoke', revoke).events).toEqual([]);
});

test.each([
  ['key.create', { body: { ...create.body, organisation: 'nobody' } }],
  ['key.revoke', { params: { id: 'key-nowhere' } }],
])('%s of something that does not exist is a 404 for the operator', (name, text) => {
  const state = new TestState().given(smallFleet);
  expect(() => state.decide(name, text)).toThrow(expect.objectContaining({ type: 'NotFound', status: 404 }));
});

const two = {
  body: {
    items: [
      { organisation: 'acme', name: 'a', expires: '30d' },
      { organisation: 'other', name: 'b', expires: 'never' },
    ],
  },
};

test('one command creates many keys, each with a value that only this response contains', () => {
  const state = new TestState().given(smallFleet);
  const { events, answer } = state.when('key.create', two);
  const { items } = answer as { items: { id: string; organisation: string; name: string; value: string }[] };
  expect(items.map(({ organisation, name }) => [organisation, name])).toEqual([
    ['acme', 'a'],
    ['other', 'b'],
  ]);
  expect(new Set(items.map(({ id }) => id)).size).toBe(2);
  expect(events.map(({ type, data }) => [type, 'hash' in data && data.hash])).toEqual(
    items.map(({ value }) => ['key.created', hashKey(value as KeyText).toString('hex')]),
  );
  expect(JSON.stringify(events)).not.toContain(items[0]?.value);
  for (const { id, name } of items) expect(findKey(state.db, id, testNowMs)).toMatchObject({ name });
});

test('for many keys, a dry run and a repeat show no value, and the repeat shows the existing ids', () => {
  const state = new TestState().given(smallFleet);
  const dry = state.decide('key.create', two, { dryRun: true }).result() as { items: object[] };
  expect(dry.items.map((item) => Object.keys(item))).toEqual(Array(2).fill(['id', 'organisation', 'name']));
  const { events } = state.when('key.create', two);
  const ids = events.map(({ data }) => 'id' in data && data.id);
  const shown = keyCommands['key.create'].many?.show(
    state.db,
    { params: {}, ...two },
    String(ids[0]),
    testNowMs,
  );
  expect(shown).toMatchObject({ items: ids.map((id) => ({ id })) });
});

test('many keys are created all or none, and each item at fault is named', () => {
  const state = new TestState().given(smallFleet);
  const [a, b] = two.body.items;
  const items = [a, { ...b, organisation: 'nobody' }, a, { ...a, organisation: 'none' }];
  const decide = () => state.decide('key.create', { body: { items } });
  expect(decide).toThrow(
    expect.objectContaining({
      type: 'NotFound',
      message: 'items[1].organisation: there is no organisation nobody',
      details: [
        { path: 'items[1].organisation', message: 'there is no organisation nobody' },
        { path: 'items[3].organisation', message: 'there is no organisation none' },
      ],
    }),
  );
  for (const [faulty, path] of [
    [[a, { ...a, name: '' }], 'items[1].name'],
    [[], 'items'],
    [Array(1001).fill(a), 'items'],
    [[{ ...a, more: 1 }], 'items[0]'],
  ] as const)
    expect(() => state.decide('key.create', { body: { items: faulty } })).toThrow(
      expect.objectContaining({
        type: 'InvalidCommand',
        details: [expect.objectContaining({ path })],
      }),
    );
});

test('a thousand new keys count against the bounds together', () => {
  const state = new TestState().given(smallFleet);
  const [a] = two.body.items;
  state.when('bounds.set', { body: { activeKeysPerOrganisation: 1000 } });
  const items = (count: number) => ({ body: { items: Array(count).fill(a) } });
  expect(() => state.decide('key.create', items(1000))).toThrow(/activeKeysPerOrganisation/);
  expect(state.when('key.create', items(999)).events).toHaveLength(999);
});

test('a person may create many keys of one organisation if their role allows it', () => {
  const state = new TestState().given(smallFleet);
  const [a] = two.body.items;
  const ana = { actor: { person: 'ana' } };
  expect(state.when('key.create', { body: { items: [a, a] } }, ana).events).toHaveLength(2);
  expect(() => state.decide('key.create', two, ana)).toThrow(expect.objectContaining({ type: 'Forbidden' }));
  const zoe = { actor: { person: 'zoe' } };
  const ofAcme = () => state.decide('key.create', { body: { items: [a] } }, zoe);
  expect(ofAcme).toThrow(expect.objectContaining({ type: 'Forbidden' }));
});
