/**
 * Tests that the cached look-up queries the snapshot once for each result, and again only after a commit that affects the
 * result.
 */
import { expect, test } from 'vitest';
import type { PlaceKey } from '../../schemas/names.ts';
import { fleetHistory, known, recordsOf, sha256 } from '../../test/support/commits.ts';
import { cachedLookup } from './cached-lookup.ts';
import { createLookup, type Lookup } from './lookup.ts';
import { memorySnapshot } from './open-snapshot.ts';
import type { TableRow } from './tables.ts';

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

/** Opens a cached look-up on a snapshot at the second commit. `asked` counts the queries that reach the tables. */
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
  const cached = cachedLookup(counting);
  snapshot.watchRows(cached.forget);
  return { snapshot, plain, asked, cached };
}

test('every answer equals the snapshot’s, and is looked up once between two commits', () => {
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

test('a revoked key is seen with its commit, and entries that the commit does not touch stay cached', () => {
  const { snapshot, asked, cached } = opened();
  expect(cached.keyOwner(hash)?.revoked).toBe(false);
  cached.stack('stk-amber-otter-1');
  snapshot.apply(records.slice(-1));
  const before = asked.count;
  cached.stack('stk-amber-otter-1');
  expect(asked.count).toBe(before);
  expect(cached.keyOwner(hash)?.revoked).toBe(true);
});

test('after each commit of any history, every answer equals the snapshot’s', () => {
  const snapshot = memorySnapshot();
  const plain = createLookup(snapshot.db);
  const cached = cachedLookup(plain);
  snapshot.watchRows(cached.forget);
  const rows = (table: string) => snapshot.db.prepare(`SELECT * FROM ${table}`).all() as TableRow[];
  const values = (table: string, column: string) => [
    ...new Set(rows(table).map((row) => String(row[column]))),
  ];
  /** Runs every query with all ids in the state and with some that do not exist. */
  const askAll = (lookup: Lookup) => {
    const models = ['none', ...values('model', 'id'), ...values('routes', 'model')];
    const tiers = ['none', ...values('tier', 'id')];
    const stacks = ['stk-none', ...values('stack', 'id')];
    const places = ['pool', ...values('routes', 'place'), ...stacks.map((id) => `stack:${id}`)];
    const hashes = rows('api_key').flatMap((row) => (Buffer.isBuffer(row['hash']) ? [row['hash']] : []));
    return {
      owners: hashes.map((each) => lookup.keyOwner(each)),
      stacks: stacks.map((id) => lookup.stack(id as never)),
      routes: places.map((place) => models.map((model) => lookup.routes(place as PlaceKey, model))),
      models: models.map((model) => [
        ...[lookup.isPooled(model), lookup.isCatalogued(model), lookup.weight(model)],
        ...[lookup.hasAffinity(model), ...tiers.map((tier) => lookup.tierIncludes(tier, model))],
      ]),
      adjustments: rows('usage_adjustment').map((row) =>
        lookup.usageAdjustment(String(row['organisation']) as never, String(row['period'])),
      ),
    };
  };
  for (const record of recordsOf(fleetHistory(5, 400))) {
    snapshot.apply([record]);
    expect(askAll(cached)).toEqual(askAll(plain));
  }
});

test('unknown keys are not cached, and invented models cannot fill the memory', () => {
  const { asked, cached } = opened();
  cached.keyOwner(Buffer.alloc(32));
  cached.keyOwner(Buffer.alloc(32));
  expect(asked.count).toBe(2);
  for (let n = 0; n <= 10_000; n++) cached.weight(`invented-${n}`);
  const before = asked.count;
  cached.weight('invented-0');
  expect(asked.count).toBe(before + 1);
});
