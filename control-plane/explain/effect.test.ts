/**
 * Tests the effect on limits, and on requests that only traffic reports contain. effect-recorded.test.ts covers recorded
 * requests.
 */
import { expect, test } from 'vitest';
import type { KnownEvent } from '../../schemas/events/events.ts';
import { atOnce } from '../../shared/runtime/slices.ts';
import { memorySnapshot } from '../../shared/snapshot/open-snapshot.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { known, recordsOf } from '../../test/support/commits.ts';
import { effectSteps } from './effect.ts';
import { findLoweredLimits, readLimits } from './effect-limits.ts';
import { computePeaks } from './effect-peaks.ts';
import type { SampledDecision } from './sampled.ts';

const nowMs = Date.UTC(2026, 10, 21);
function snapshotOf(commits: readonly (readonly KnownEvent[])[]): Snapshot {
  const snapshot = memorySnapshot();
  snapshot.apply(recordsOf(commits));
  return snapshot;
}

const asked = { by: 'operator', nowMs };

function stackFleet(...owners: readonly (readonly [stack: string, organisation: string])[]): KnownEvent[] {
  return owners.flatMap(([id, organisation]) => {
    const node = `n-${organisation}`;
    const own = { id: node, owner: 'control-1', generation: 1 };
    return [
      known('organisation.set', { id: organisation, name: organisation, tier: 'Plus', anchor: '2026-01-01' }),
      known('stack.created', { id: id as 'stk-amber-otter-1', organisation, surface: 'anthropic' }),
      known('stack.model_installed', { stack: id, model: 'm-1' }),
      known('node.registered', {
        ...{
          id: node,
          place: { kind: 'stack', id },
          url: 'http://127.0.0.1/',
          dialect: 'vllm',
          agent: false,
        },
      }),
      known('node.joined', own),
      known('node.health_changed', { ...own, up: true, models: ['m-1'] }),
    ];
  });
}

test('requests that a silent gateway only reported are decided like recorded ones', () => {
  const [one, two] = ['stk-amber-otter-1', 'stk-blue-finch-2'] as const;
  const tier = { id: 'Plus', rank: 1, models: '*' as const, requestsPerMinute: 100 };
  const snapshot = snapshotOf([[known('tier.set', tier), ...stackFleet([one, 'org-1'], [two, 'org-2'])]]);
  const row = { model: 'm-1', perMinute: 20 };
  const reported = [
    { ...row, organisation: 'org-1', stack: one, requests: 70 },
    { ...row, organisation: 'org-2', stack: two, requests: 30 },
    // The shared host has no node, so these requests are refused before the change, too.
    { ...row, organisation: 'org-2', requests: 900 },
  ];
  const effectBy = (...events: KnownEvent[]) =>
    atOnce(effectSteps(snapshot, { ...asked, events, records: [], reported })).recorded;
  expect(effectBy(known('stack.removed', { id: two }))).toEqual({
    ...{ decided: 2, asked: 100, differ: 30, refused: 30, lost: ['org-2'] },
    groups: [
      {
        ...{ organisation: 'org-2', host: two, model: 'm-1', operation: 'messages', requests: 30 },
        ...{ from: 'served stack', to: '404 TargetNotServingError', examples: [] },
      },
    ],
  });
  const limitTo = (requestsPerMinute: number) =>
    effectBy(known('tier.set', { ...tier, requestsPerMinute }))?.refused;
  expect([limitTo(30), limitTo(10)]).toEqual([0, 100]);
  const meant = { organisations: ['org-2'], keys: [] };
  const events = [known('stack.removed', { id: two })];
  const question = { ...asked, events, records: [], reported, meant };
  expect(atOnce(effectSteps(snapshot, question)).recorded).toMatchObject({ asked: 70, refused: 0 });
});

test('lowered limits show their peak use: for visitors that of one, and that of all together', () => {
  const anonymous = { models: '*' as const, freeTurns: 10, requestsPerMinute: 5 };
  const organisations = ['org-1', 'org-2'];
  const tier = { id: 'Plus', rank: 1, models: '*' as const, requestsPerMinute: 100, concurrency: 9 };
  const snapshot = snapshotOf([
    [
      known('tier.set', tier),
      known('anonymous.set', { ...anonymous, total: { concurrency: 8 } }),
      ...organisations.map((id) =>
        known('organisation.set', { id, name: id, tier: 'Plus', anchor: '2026-01-01' }),
      ),
    ],
  ]);
  const events = [
    known('tier.set', { ...tier, requestsPerMinute: 10, concurrency: 4 }),
    known('anonymous.set', { ...anonymous, freeTurns: 3, total: { concurrency: 8, tokensPerDay: 100 } }),
  ];
  const busiest = new Map([
    ['org-1', 7],
    ['org-2', 42],
  ]);
  const record = {
    ...{ organisation: 'org-1', promptTokens: 100, maxTokens: 50, stage: 'answer' },
    counters: { windowUsed: 50, inFlight: 8, concurrency: { here: 2, elsewhere: 3, room: 1 }, poolTokens: 9 },
  } as unknown as SampledDecision['record'];
  const visit = {
    ...{ visitor: 'v-1', promptTokens: 10, stage: 'answer' },
    counters: {
      windowUsed: 0,
      inFlight: 0,
      freeTurns: 6,
      visitors: { windowUsed: 0, inFlight: 1, tokens: 77 },
    },
  } as unknown as SampledDecision['record'];
  const records = [record, visit].map((each) => ({ record: each, requests: 1 }));
  const { limits } = atOnce(effectSteps(snapshot, { ...asked, events, busiest, records: [] }));
  expect(limits.map(({ what, peak }) => [what, peak])).toEqual([
    ['requestsPerMinute', 42],
    ['concurrency', undefined],
    ['freeTurns', undefined],
    ['total.tokensPerDay', undefined],
  ]);
  const before = readLimits(snapshot.db);
  const after = new Map(
    [...before].map(([subject, of]) => [subject, { ...of, concurrency: 1, freeTurns: 1 }]),
  );
  expect(findLoweredLimits(before, after, { peaks: computePeaks(busiest, records) })).toEqual([
    { organisations: 2, what: 'concurrency', from: 9, to: 1, peak: 6 },
    { visitors: true, organisations: 0, what: 'freeTurns', from: 10, to: 1, peak: 7 },
    { visitors: true, organisations: 0, what: 'concurrency', from: null, to: 1, peak: 1 },
  ]);
  expect(findLoweredLimits(before, after, { peaks: new Map(), only: 'org-1' })).toHaveLength(1);
});
