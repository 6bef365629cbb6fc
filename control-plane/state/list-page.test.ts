/**
 * Tests that paged lists contain each row once and in order, whatever is added meanwhile, and that invalid cursors are
 * refused.
 */
import { expect, test } from 'vitest';
import type { KnownEvent } from '../../schemas/events/events.ts';
import { memorySnapshot } from '../../shared/snapshot/open-snapshot.ts';
import { keyOrdersSql } from '../../shared/snapshot/tables.ts';
import { known, sha256 } from '../../test/support/commits.ts';
import { TestState, testNowMs } from '../../test/support/state.ts';
import { nodeListing } from './capacity.ts';
import { listPage } from './list-page.ts';
import { keyListing, memberListing } from './tenants.ts';

const keys = 603;
/** Number of keys created at the same time, so that time alone does not determine their order. */
const keysPerCommit = 100;
const names = ['Billing', 'billing', 'deploy', "it's", '100%', 'Ärger', '_'];

function madeKey(n: number) {
  const batch = n - (n % keysPerCommit);
  const expiresMs = n % 2 === 0 ? null : testNowMs + (n - 300) * 1000;
  return {
    ...{ id: `key-${n}`, organisation: `org-${n % 3}`, name: names[n % names.length] ?? '' },
    ...{ expiresMs, state: expiresMs !== null && expiresMs <= testNowMs ? 'expired' : 'active' },
    ...{ createdMs: testNowMs + batch, createdBy: batch % (2 * keysPerCommit) === 0 ? 'ana' : 'operator' },
  };
}

function keyEvent(n: number): KnownEvent {
  const { id, organisation, name, expiresMs } = madeKey(n);
  return known('key.created', {
    ...{ id, organisation, name, hash: sha256(id), expires: expiresMs === null ? 'never' : '30d' },
    expiresAt: expiresMs === null ? null : new Date(expiresMs).toISOString(),
  });
}

function stateOfKeys(): TestState {
  const state = new TestState();
  for (const n of [0, 1, 2])
    state.given([
      known('organisation.set', { id: `org-${n}`, name: `Org ${n}`, tier: null, anchor: '2026-01-01' }),
    ]);
  for (let n = 0; n < keys; n += keysPerCommit) {
    const { createdBy, createdMs } = madeKey(n);
    const events = Array.from({ length: Math.min(keysPerCommit, keys - n) }, (_, index) =>
      keyEvent(n + index),
    );
    state.given(events, createdBy, createdMs);
  }
  return state;
}
const state = stateOfKeys();

/** Reads all pages. Calls `between` before each page except the first. */
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
  listPage(state.db, keyListing, { nowMs: testNowMs, limit: 1000, ...query }).items.map(({ id }) => id);

function expected(query: Query): string[] {
  const { sort, owner, state: wanted, text = '' } = query;
  const isFound = (key: MadeKey): boolean =>
    (owner === undefined || key.organisation === owner) &&
    (wanted === undefined || key.state === wanted) &&
    [key.name, key.id, key.state, key.organisation, key.createdBy].some((field) =>
      lower(field).includes(lower(text)),
    );
  const value = valueBy[sort.replace('-', '')] ?? (() => 0);
  const order = (a: MadeKey, b: MadeKey): number => compare(value(a), value(b)) || compare(a.id, b.id);
  const found = Array.from({ length: keys }, (_, n) => madeKey(n))
    .filter(isFound)
    .sort((a, b) => (sort.startsWith('-') ? order(b, a) : order(a, b)));
  return found.map(({ id }) => id);
}

type MadeKey = ReturnType<typeof madeKey>;
interface Query {
  readonly sort: string;
  readonly owner?: string;
  readonly state?: string;
  readonly text?: string;
}
const valueBy: Readonly<Record<string, (key: MadeKey) => string | number>> = {
  createdAt: ({ createdMs }) => createdMs,
  name: ({ name }) => lower(name),
  id: ({ id }) => id,
  state: ({ state }) => state,
  organisation: ({ organisation }) => organisation,
  expiresAt: ({ expiresMs }) => expiresMs ?? Number.POSITIVE_INFINITY,
  createdBy: ({ createdBy }) => createdBy,
};
const lower = (text: string): string => text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
const compare = (a: string | number, b: string | number): number =>
  typeof a === 'number' ? a - Number(b) : Buffer.compare(Buffer.from(a), Buffer.from(String(b)));

test.each(Object.keys(keyListing.sorts).flatMap((sort) => [sort, `-${sort}`]))(
  'pages sorted by %s contain each key once, in this order',
  (sort) => {
    for (const filter of [
      {},
      { owner: 'org-1' },
      { text: 'BILLING' },
      { text: 'expired' },
      { state: 'active' },
    ]) {
      const { ids, totals } = pages({ sort, ...filter });
      expect(ids).toEqual(expected({ sort, ...filter }));
      expect(whole({ sort, ...filter })).toEqual(ids);
      expect(totals).toEqual([ids.length]);
    }
  },
);

test('a page has 100 rows by default, and states how many there are', () => {
  const page = listPage(state.db, keyListing, { nowMs: testNowMs });
  expect([page.items.length, page.total, page.next === undefined]).toEqual([100, keys, false]);
});

test('a page of a long list searches part of it, and the next one continues there', () => {
  const long = { ...keyListing, searchedMax: 50 };
  for (const sort of ['createdAt', '-createdAt', 'id', '-organisation'])
    for (const filter of [{ text: 'billing' }, { text: 'nowhere' }, { state: 'expired' }, { text: 'ana' }]) {
      const found: string[] = [];
      const lengths: number[] = [];
      let after: string | undefined;
      do {
        const page = listPage(state.db, long, { nowMs: testNowMs, limit: 20, sort, after, ...filter });
        expect(page.total).toBe(undefined);
        found.push(...page.items.map(({ id }) => id));
        lengths.push(page.items.length);
        after = page.next;
      } while (after !== undefined);
      expect(found).toEqual(expected({ sort, ...filter }));
      // Each page must have read only a part of the rows, whether or not it found anything.
      expect(lengths.length).toBeGreaterThanOrEqual(keys / 50);
    }
});

test('a long list is sorted only by indexed fields, and says which', () => {
  const long = { ...keyListing, searchedMax: 50 };
  const page = (query: object) => listPage(state.db, long, { nowMs: testNowMs, ...query });
  expect(() => page({ sort: '-name' })).toThrow('this list is too long to be sorted by name');
  expect(page({ sort: 'createdAt' }).total).toBe(keys);
  const few = { ...keyListing, searchedMax: keys / 2 };
  expect(listPage(state.db, few, { nowMs: testNowMs, sort: 'name', owner: 'org-1' }).total).toBe(keys / 3);
});

test('every indexed key order uses its index', () => {
  const { db } = memorySnapshot();
  db.exec(keyOrdersSql);
  for (const sort of keyListing.indexed) {
    const order = keyListing.sorts[sort];
    const plan = db.prepare(`EXPLAIN QUERY PLAN SELECT * FROM ${keyListing.from} WHERE (${order}, id) > (?, ?)
      ORDER BY ${order}, id LIMIT 9`);
    const steps = plan.all(0, 0, '').map((step) => (step as { detail: string }).detail);
    expect(steps.join(), sort).not.toContain('TEMP B-TREE FOR ORDER BY');
  }
});

test('a descending order is the reverse of the ascending one, and expiry is sorted by time', () => {
  expect(whole({ sort: '-state' })).toEqual(whole({ sort: 'state' }).toReversed());
  const ends = listPage(state.db, keyListing, { nowMs: testNowMs, sort: 'expiresAt', limit: 1000 }).items;
  const times = ends.map(({ expiresAt }) =>
    expiresAt === null ? Number.POSITIVE_INFINITY : Date.parse(expiresAt),
  );
  expect(times).toEqual([...times].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0)));
});

test('rows added between two pages shift no others', () => {
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
  // This text exists only across the end of one column and the beginning of the next.
  ['deploykey', () => false],
])('the text %s is searched for literally', (text, isFound) => {
  const found = new Set(whole({ text }).filter((id) => Number(id.slice('key-'.length)) < keys));
  const wanted = Array.from({ length: keys }, (_, n) => madeKey(n)).filter(({ name }) => isFound(name));
  expect(found).toEqual(new Set(wanted.map(({ id }) => id)));
});

test('a key’s state is the one at the reader’s time, and can be filtered by', () => {
  const active = (nowMs: number) =>
    listPage(state.db, keyListing, { nowMs, state: 'active', limit: 1 }).total;
  expect(active(testNowMs - 3600_000)).toBeGreaterThan(active(testNowMs) ?? 0);
});

test.each([
  ['not a cursor', 'x', undefined],
  ['JSON of another shape', Buffer.from('{"a":1}').toString('base64url'), undefined],
  ['too few parts', Buffer.from('["createdAt",1]').toString('base64url'), undefined],
  ['a nested part', Buffer.from('["createdAt",[1],"key-1"]').toString('base64url'), undefined],
  ['from another order', listPage(state.db, keyListing, { nowMs: 0, limit: 1 }).next, 'name'],
])('the cursor is refused: %s', (_name, after, sort) => {
  const read = () => listPage(state.db, keyListing, { nowMs: testNowMs, limit: 5, after, sort });
  expect(read).toThrow('after is not a cursor of this list in this order');
});

test.each(['hash', 'created_at', '-', '--name', 'constructor', 'name; DROP TABLE api_key'])(
  'sorting by %s is refused',
  (sort) => {
    expect(() => listPage(state.db, keyListing, { nowMs: testNowMs, sort })).toThrow('not sorted by');
  },
);

test('a list with a key of several columns continues in the middle of the first column', () => {
  const members = Array.from({ length: 30 }, (_, n) => `p-${n}`);
  for (const organisation of ['org-0', 'org-1'])
    state.given(members.map((person) => known('member.set', { organisation, person, role: 'member' })));
  const first = listPage(state.db, memberListing, { nowMs: 0, limit: 45, sort: 'role' });
  const second = listPage(state.db, memberListing, { nowMs: 0, limit: 45, sort: 'role', after: first.next });
  expect([first.items.length, second.items.length, second.next]).toEqual([45, 15, undefined]);
  expect(new Set([...first.items, ...second.items].map((item) => JSON.stringify(item))).size).toBe(60);
});

test('nodes with many model names continue by name, with a cursor short enough for the API', () => {
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

test('nodes can be found by state and by id, and a list without states refuses a state', () => {
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
