import { afterAll, expect, test } from 'vitest';
import { memorySnapshot } from '../../shared/snapshot/open-snapshot.ts';
import { verify } from '../../shared/snapshot/verify.ts';
import { known, recordsOf, sha256 } from '../../test/support/commits.ts';
import { findSetCommit } from './because.ts';

const snapshot = memorySnapshot();
afterAll(() => snapshot.db.close());
const owner = { owner: 'cp-1', generation: 1 };
const health = (up: boolean, models: string[]) =>
  known('node.health_changed', { id: 'pool-1', ...owner, up, models });
// Position 1 is the commit that creates the log, so these commits begin at 2.
snapshot.apply(
  recordsOf([
    [known('organisation.set', { id: 'acme', name: 'Acme', tier: 'Starter', anchor: '2026-01-01' })],
    [
      known('node.registered', {
        id: 'pool-1',
        place: { kind: 'pool' },
        url: 'http://127.0.0.1:1',
        dialect: 'vllm',
        agent: false,
      }),
    ],
    [known('node.joined', { id: 'pool-1', ...owner })],
    [health(true, ['echo'])],
    [known('node.drained', { id: 'pool-1' })],
    [health(true, ['echo', 'more'])],
    [known('pool.model_installed', { model: 'team/echo' })],
    [known('pool.model_uninstalled', { model: 'team/echo' })],
    [known('stack.created', { id: 'stk-amber-otter-1', organisation: 'acme', surface: 'openai' })],
    [known('stack.model_installed', { stack: 'stk-amber-otter-1', model: 'team/echo' })],
    [
      known('key.created', {
        id: 'key-1',
        organisation: 'acme',
        name: 'laptop',
        hash: sha256('a'),
        expires: 'never',
        expiresAt: null,
      }),
    ],
    [known('organisation.suspended', { id: 'acme', suspended: true })],
    [known('organisation.removed', { id: 'acme' })],
  ]),
);
const first = snapshot.seq - 12;

test.each([
  ['node', 'pool-1', 'set_at', 5, false],
  ['node', 'pool-1', 'up_set_at', 3, false],
  ['node', 'pool-1', 'drained_set_at', 4, false],
  ['node', 'pool-1', 'loaded_set_at', 5, false],
  ['pool_model', 'team/echo', 'set_at', 7, true],
  ['stack_model', 'stk-amber-otter-1/team/echo', 'set_at', 12, true],
  ['api_key', 'key-1', 'set_at', 12, true],
  ['organisation', 'acme', 'tier_set_at', 12, true],
] as const)('%s %s: %s names the commit that last set it', (table, key, mark, index, removed) => {
  expect(findSetCommit(snapshot.db, table, key, mark)).toEqual({ seq: first + index, removed });
});

test('nothing is known of a row that never existed', () => {
  expect(findSetCommit(snapshot.db, 'node', 'pool-2')).toBeUndefined();
});

test('positions are not part of the digests', () => {
  const { db } = snapshot;
  expect(verify(db).differing).toEqual([]);
  db.exec('BEGIN; UPDATE node SET set_at = 99, up_set_at = 99, drained_set_at = 99, loaded_set_at = 99');
  expect(verify(db).differing).toEqual([]);
  db.exec('UPDATE node SET drained = 0');
  expect(verify(db).differing).toEqual(['node']);
  db.exec('ROLLBACK');
});

test('for removed rows, the newest 10 000 are kept', () => {
  const many = memorySnapshot();
  const commits = Array.from({ length: 60 }, (_, n) =>
    Array.from({ length: 200 }, (_, m) => {
      const model = `m-${n}-${m}`;
      return [known('pool.model_installed', { model }), known('pool.model_uninstalled', { model })];
    }).flat(),
  );
  many.apply(recordsOf([...commits, ...Array.from({ length: 64 }, () => [known('no_op', {})])]));
  const kept = many.db.prepare('SELECT count(*) FROM removed').pluck().get() as number;
  expect(kept).toBeGreaterThanOrEqual(10_000);
  expect(kept).toBeLessThan(10_400);
  many.db.close();
});
