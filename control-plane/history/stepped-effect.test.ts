/**
 * Tests that an effect is computed in steps between which other work can run, and that it refers to one state whatever is
 * folded meanwhile.
 */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { GatewaySample } from '../../schemas/admin/gateway-requests.ts';
import { atOnce } from '../../shared/runtime/slices.ts';
import { ChainWriter, known, sha256 } from '../../test/support/commits.ts';
import { seededRandom } from '../../test/support/random.ts';
import { servingFleet } from '../../test/support/serving-fleet.ts';
import { openHistory } from './history-file.ts';
import { HistoryReader } from './queries.ts';

const decisions = 3000;
const nowMs = Date.UTC(2026, 10, 21);

function lineOf(n: number): string {
  const decision = {
    ...{ v: 1, req: `req_${n.toString(16).padStart(32, '0')}`, gateway: 'gw-1', at: nowMs, position: 1 },
    ...{ host: 'shared', operation: 'chat', organisation: 'org-5', key: 'key-1', header: 'authorization' },
    ...{ model: 'echo-small', promptTokens: 10, counted: 'bound', maxTokens: 10 },
    counters: { windowUsed: 0, inFlight: 0, poolTokens: 0, freeTurns: 0 },
    ...{ stage: 'answer', served: true, status: 200, outcome: 'completed', ms: { end: 10 } },
  } satisfies GatewaySample['decision'];
  return `${JSON.stringify({ requests: 1, decision } satisfies GatewaySample)}\n`;
}
const texts = Array.from({ length: decisions / 100 }, (_, page) =>
  Array.from({ length: 100 }, (_, n) => lineOf(100 * page + n)).join(''),
);

function historyOf() {
  const { snapshot } = openHistory(join(mkdtempSync(join(tmpdir(), 'headgate-test-')), 'history.db'), null);
  const writer = new ChainWriter({ log: 'test' });
  const fold = (...events: Parameters<typeof writer.add>[0]) => snapshot.apply([writer.add(events)]);
  snapshot.apply([writer.open()]);
  for (const events of servingFleet(seededRandom(3))) fold(...events);
  fold(
    known('pool.model_installed', { model: 'echo-small' }),
    known('tier.set', { id: 'Own', rank: 1, models: '*' }),
    known('organisation.set', { id: 'org-5', name: 'o', tier: 'Own', anchor: '2026-01-01' }),
    known('node.joined', { id: 'node-1', owner: 'control-1', generation: 2 }),
    known('node.health_changed', {
      ...{ id: 'node-1', owner: 'control-1', generation: 2, up: true, models: ['echo-small'] },
    }),
    known('key.created', {
      ...{ id: 'key-1', organisation: 'org-5', name: 'k', hash: sha256('k'), expires: 'never' },
      expiresAt: null,
    }),
  );
  const reader = new HistoryReader(snapshot, () => ({ position: snapshot.seq, bytes: 0 }));
  const events = [known('tier.set', { id: 'Own', rank: 1, models: [] })];
  const steps = () => reader.effect(snapshot.seq, { events, by: 'operator', nowMs }, texts);
  return { snapshot, fold, steps };
}

test('without requests in the last hour, the effect lists the differing rows and leaves the state unchanged', () => {
  const { snapshot } = historyOf();
  const digest = snapshot.digest();
  const reader = new HistoryReader(snapshot, () => ({ position: snapshot.seq, bytes: 0 }));
  const events = [
    known('tier.set', { id: 'Own', rank: 1, models: [] }),
    known('key.revoked', { id: 'key-1' }),
  ];
  const question = { events, by: 'operator', nowMs };
  const { changes = [] } = atOnce(reader.effect(snapshot.seq, question, []));
  expect(changes).toMatchObject([
    { action: 'remove', table: 'tier_model', id: 'Own/*' },
    { action: 'change', table: 'api_key', id: 'key-1' },
  ]);
  expect(atOnce(reader.effect(snapshot.seq, question, texts)).changes).toBeUndefined();
  expect(
    atOnce(reader.effect(snapshot.seq, { ...question, organisation: 'org-5' }, [])).changes,
  ).toBeUndefined();
  expect(snapshot.digest()).toBe(digest);
  snapshot.close();
});

const suspended = (is: boolean) => known('organisation.suspended', { id: 'org-2', suspended: is });

test('between two steps the original state is restored, and no step decides too many requests', () => {
  const { snapshot, steps } = historyOf();
  const digest = snapshot.digest();
  const work = steps();
  let count = 0;
  for (;;) {
    const { done, value } = work.next();
    expect(snapshot.digest()).toBe(digest);
    count++;
    if (!done) continue;
    expect(value).toMatchObject({
      position: snapshot.seq,
      recorded: { asked: decisions, refused: decisions },
    });
    break;
  }
  expect(count).toBeGreaterThan(texts.length + 6);
  snapshot.close();
});

test('commits folded meanwhile are part of the answer, which gives up if every step finds a new state', () => {
  const { snapshot, fold, steps } = historyOf();
  const once = steps();
  for (let n = 0; n < texts.length + 8; n++) expect(once.next().done).toBe(false);
  fold(known('organisation.suspended', { id: 'org-5', suspended: true }));
  let last = once.next();
  while (!last.done) last = once.next();
  expect(last.value).toMatchObject({ position: snapshot.seq, recorded: { decided: 0, refused: 0 } });
  const always = steps();
  let n = 0;
  for (last = always.next(); !last.done; last = always.next()) fold(suspended(n++ % 2 === 0));
  expect(last.value.position).toBe(snapshot.seq);
  expect(n).toBeLessThan(texts.length + 10);
  snapshot.close();
});
