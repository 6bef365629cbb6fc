/** Look-ups between two commits are asked once, and each commit is seen at once. */
import { expect, test } from 'vitest';
import { known, recordsOf, sha256 } from '../../test/support/commits.ts';
import { cachedLookup } from './cached-lookup.ts';
import { createLookup, type Lookup } from './lookup.ts';
import { memorySnapshot } from './open-snapshot.ts';

const hash = Buffer.from(sha256('key'), 'hex');
const records = recordsOf([
  [known('organisation.set', { id: 'acme', name: 'Acme', tier: null, anchor: '2026-01-01' })],
  [
    known('key.created', {
      id: 'key-1',
      organisation: 'acme',
      name: 'laptop',
      hash: sha256('key'),
      expires: 'never',
      expiresAt: null,
    }),
    known('stack.created', { id: 'stk-amber-otter-1', organisation: 'acme', surface: 'openai' }),
  ],
  [known('key.revoked', { id: 'key-1' })],
]);

/** Over a snapshot at the second commit; `asked` counts what reaches the tables. */
function opened() {
  const snapshot = memorySnapshot();
  snapshot.apply(records.slice(0, -1));
  const asked = { count: 0 };
  const plain = createLookup(snapshot.db);
  const counting = new Proxy(plain, {
    get: (target, name: keyof Lookup) => {
      const query = target[name] as (...parameters: unknown[]) => unknown;
      return (...parameters: unknown[]) => {
        asked.count++;
        return query(...parameters);
      };
    },
  });
  return { snapshot, plain, asked, cached: cachedLookup(counting) };
}

test('every answer is that of the snapshot, and is asked for once between two commits', () => {
  const { plain, asked, cached } = opened();
  const queries: readonly ((lookup: Lookup) => unknown)[] = [
    (lookup) => lookup.keyOwner(hash),
    (lookup) => lookup.stack('stk-amber-otter-1'),
    (lookup) => lookup.stack('stk-none'),
    (lookup) => lookup.routes('pool', 'm-1'),
    (lookup) => lookup.isPooled('m-1'),
    (lookup) => lookup.tierIncludes('Team', 'm-1'),
    (lookup) => lookup.isCatalogued('m-1'),
    (lookup) => lookup.weight('m-1'),
    (lookup) => lookup.usageAdjustment('acme', '2026-01-01'),
  ];
  for (const query of queries) expect(query(cached)).toEqual(query(plain));
  const first = asked.count;
  for (const query of queries) expect(query(cached)).toEqual(query(plain));
  expect([first, asked.count]).toEqual([queries.length, queries.length]);
});

test('a revoked key is seen with the drop that follows its commit', () => {
  const { snapshot, cached } = opened();
  expect(cached.keyOwner(hash)?.revoked).toBe(false);
  snapshot.apply(records.slice(-1));
  cached.drop();
  expect(cached.keyOwner(hash)?.revoked).toBe(true);
});

test('unknown keys are not remembered, and invented models cannot fill the memory', () => {
  const { asked, cached } = opened();
  cached.keyOwner(Buffer.alloc(32));
  cached.keyOwner(Buffer.alloc(32));
  expect(asked.count).toBe(2);
  for (let n = 0; n <= 10_000; n++) cached.weight(`invented-${n}`);
  const before = asked.count;
  cached.weight('invented-0');
  expect(asked.count).toBe(before + 1);
});
