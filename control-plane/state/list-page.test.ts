/** Lists page after page: each row once, in the order asked for, whatever is added meanwhile; and nothing else is a cursor. */
import { expect, test } from 'vitest';
import type { KnownEvent } from '../../schemas/events.ts';
import { known, sha256 } from '../../test/support/commits.ts';
import { TestState, testNowMs } from '../../test/support/state.ts';
import { nodeListing } from './capacity.ts';
import { listPage } from './list-page.ts';
import { keyListing, memberListing } from './tenants.ts';

const keys = 603;
const names = ['Billing', 'billing', 'deploy', "it's", '100%', 'Ärger', '_'];

function keyEvent(n: number): KnownEvent {
  return known('key.created', {
    ...{ id: `key-${n}`, organisation: `org-${n % 3}`, name: names[n % names.length] ?? '' },
    ...{ hash: sha256(`key ${n}`), expires: n % 2 === 0 ? 'never' : '30d' },
    expiresAt: n % 2 === 0 ? null : new Date(testNowMs + (n - 300) * 1000).toISOString(),
  });
}

function stateOfKeys(): TestState {
  const state = new TestState();
  for (const n of [0, 1, 2])
    state.given([
      known('organisation.set', { id: `org-${n}`, name: `Org ${n}`, tier: null, anchor: '2026-01-01' }),
    ]);
  // Many of one moment, so that the moment alone is no order.
  for (let n = 0; n < keys; n += 100)
    state.given(
      Array.from({ length: Math.min(100, keys - n) }, (_, index) => keyEvent(n + index)),
      n % 200 === 0 ? 'ana' : 'operator',
      testNowMs + n,
    );
  return state;
}
const state = stateOfKeys();

/** All pages. `between` runs before each but the first. */
function pages(query: object, between: () => void = () => undefined) {
  const items: { readonly id: string }[] = [];
  const totals = new Set<number | undefined>();
  let after: string | undefined;
  do {
    const page = listPage(state.db, keyListing, { nowMs: testNowMs, limit: 37, after, ...query });
    items.push(...page.items);
    totals.add(page.total);
    after = page.next;
    if (after !== undefined) between();
  } while (after !== undefined);
  return { ids: items.map(({ id }) => id), totals: [...totals] };
}
const whole = (query: object) =>
  listPage(state.db, keyListing, { nowMs: testNowMs, ...query }).items.map(({ id }) => id);

test.each(Object.keys(keyListing.sorts).flatMap((sort) => [sort, `-${sort}`]))(
  'pages sorted by %s have each row once, as the whole list has it',
  (sort) => {
    for (const filter of [
      {},
      { organisation: 'org-1' },
      { text: 'BILLING' },
      { text: 'expired' },
      { state: 'active' },
    ]) {
      const { ids, totals } = pages({ sort, ...filter });
      expect(ids).toEqual(whole({ sort, ...filter }));
      expect(new Set(ids).size).toBe(ids.length);
      expect(totals).toEqual([ids.length]);
    }
  },
);

test('the reverse order is the reverse, and an order has the sense of its field', () => {
  expect(whole({ sort: '-state' })).toEqual(whole({ sort: 'state' }).toReversed());
  const ends = listPage(state.db, keyListing, { nowMs: testNowMs, sort: 'expiresAt' }).items;
  const times = ends.map(({ expiresAt }) =>
    expiresAt === null ? Number.POSITIVE_INFINITY : Date.parse(expiresAt),
  );
  expect(times).toEqual([...times].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0)));
});

test('rows that appear between two pages shift none', () => {
  let added = keys;
  const before = whole({});
  const { ids } = pages({ sort: '-createdAt' }, () => {
    state.given([keyEvent(added++)], 'ana', testNowMs + keys);
  });
  expect(ids.filter((id) => before.includes(id))).toEqual(before.toReversed());
});

test.each([
  ['billing', (name: string) => name.toLowerCase() === 'billing'],
  ["it's", (name: string) => name === "it's"],
  ['100%', (name: string) => name === '100%'],
  ['%', (name: string) => name === '100%'],
  ['_', (name: string) => name === '_'],
  ['Ärger', (name: string) => name === 'Ärger'],
  ["' OR 1=1 --", () => false],
  // The end of one column and the beginning of the next.
  ['deploykey', () => false],
])('the text %s is looked for as it is', (text, isFound) => {
  const found = listPage(state.db, keyListing, { nowMs: testNowMs, text }).items;
  const all = listPage(state.db, keyListing, { nowMs: testNowMs }).items;
  expect(found).toEqual(all.filter(({ name }) => isFound(name)));
});

test('the state of a key is the one at the time of the reader, and can be looked for', () => {
  const active = (nowMs: number) =>
    listPage(state.db, keyListing, { nowMs, state: 'active', limit: 1 }).total;
  expect(active(testNowMs - 3600_000)).toBeGreaterThan(active(testNowMs) ?? 0);
});

test.each([
  ['no cursor', 'x', undefined],
  ['JSON of another shape', Buffer.from('{"a":1}').toString('base64url'), undefined],
  ['too few parts', Buffer.from('["createdAt",1]').toString('base64url'), undefined],
  ['a nested part', Buffer.from('["createdAt",[1],"key-1"]').toString('base64url'), undefined],
  ['one of another order', listPage(state.db, keyListing, { nowMs: 0, limit: 1 }).next, 'name'],
])('%s is refused', (_name, after, sort) => {
  const read = () => listPage(state.db, keyListing, { nowMs: testNowMs, limit: 5, after, sort });
  expect(read).toThrow('after is not from a page of this list in this order');
});

test.each(['hash', 'created_at', '-', '--name', 'constructor', 'name; DROP TABLE api_key'])(
  'a sort by %s is refused',
  (sort) => {
    expect(() => listPage(state.db, keyListing, { nowMs: testNowMs, sort })).toThrow('not sorted by');
  },
);

test('a key of several columns continues in the middle of the first', () => {
  const members = Array.from({ length: 30 }, (_, n) => `p-${n}`);
  for (const organisation of ['org-0', 'org-1'])
    state.given(members.map((person) => known('member.set', { organisation, person, role: 'member' })));
  const first = listPage(state.db, memberListing, { nowMs: 0, limit: 45, sort: 'role' });
  const second = listPage(state.db, memberListing, { nowMs: 0, limit: 45, sort: 'role', after: first.next });
  expect([first.items.length, second.items.length, second.next]).toEqual([45, 15, undefined]);
  expect(new Set([...first.items, ...second.items].map((item) => JSON.stringify(item))).size).toBe(60);
});

test('nodes with many names continue by their names, after a cursor that the API takes', () => {
  const many = new TestState();
  const ids = Array.from({ length: 7 }, (_, n) => `many-${n}`);
  for (const [n, id] of ids.entries()) {
    const mark = ['"', '\u{1f600}', '\\'][n % 3] ?? '';
    const models = Array.from(
      { length: 1000 },
      (_, index) => mark.repeat(90) + (index % 3 === 0 ? n : index),
    );
    many.given([
      known('node.registered', {
        ...{ id, url: 'http://127.0.0.1:1', dialect: 'vllm', agent: true },
        place: { kind: 'pool' },
      }),
      known('node.joined', { id, owner: 'replica-1', generation: 1 }),
      known('node.health_changed', { id, owner: 'replica-1', generation: 1, up: true, models }),
    ]);
  }
  for (const sort of ['loaded', '-loaded']) {
    const found: string[] = [];
    let after: string | undefined;
    do {
      const page = listPage(many.db, nodeListing, { nowMs: 0, limit: 1, sort, after });
      found.push(...page.items.map(({ id }) => id));
      after = page.next;
      expect((after ?? '').length).toBeLessThan(2000);
    } while (after !== undefined);
    expect(found.toSorted()).toEqual(ids);
  }
});

test('a page of nodes names a node by its state as by its id', () => {
  state.given([
    known('node.registered', {
      ...{ id: 'n1', url: 'http://127.0.0.1:1', dialect: 'vllm', agent: true },
      place: { kind: 'pool' },
    }),
  ]);
  const found = (text: string) => listPage(state.db, nodeListing, { nowMs: 0, text }).items.length;
  expect([found('down'), found('drained'), found('N1')]).toEqual([1, 0, 1]);
  const inState = (name: string) => listPage(state.db, nodeListing, { nowMs: 0, state: name }).items.length;
  expect([inState('down'), inState('up')]).toEqual([1, 0]);
  expect(() => listPage(state.db, memberListing, { nowMs: 0, state: 'up' })).toThrow('have no state');
});
