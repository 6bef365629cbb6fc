/**
 * Compares the effect on recorded requests with the result of deciding each request on two separate snapshots, one of which
 * has folded the events.
 */
import { afterAll, expect, test } from 'vitest';
import type { KnownEvent } from '../../schemas/events/events.ts';
import type { DecisionRecord } from '../../schemas/records/decisions.ts';
import { atOnce } from '../../shared/runtime/slices.ts';
import { createLookup } from '../../shared/snapshot/lookup.ts';
import { memorySnapshot } from '../../shared/snapshot/open-snapshot.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { runs } from '../../test/support/budget.ts';
import { known, randomEvent, recordsOf, sha256 } from '../../test/support/commits.ts';
import { type Random, seededRandom } from '../../test/support/random.ts';
import {
  changingTypes,
  models,
  organisations,
  servingFleet,
  stacks,
} from '../../test/support/serving-fleet.ts';
import type { MeantRefusals } from '../commands/event-effects.ts';
import { answerLabel, isServed } from './answer-labels.ts';
import { effectSteps } from './effect.ts';
import { decideWithLookup, questionFromRecord } from './question.ts';
import { parseSample, type SampledDecision } from './sampled.ts';

const nowMs = Date.UTC(2026, 10, 21);

function snapshotOf(commits: readonly (readonly KnownEvent[])[]): Snapshot {
  const snapshot = memorySnapshot();
  snapshot.apply(recordsOf(commits));
  return snapshot;
}

const keys = organisations.map((organisation) =>
  known('key.created', {
    ...{ id: `key-${organisation}`, organisation, name: 'k', hash: sha256(organisation) },
    ...{ expires: 'never', expiresAt: null },
  }),
);

/** Returns random decisions as gateways might have recorded them: any organisation, host and model, and visitors too. */
function randomSample(random: Random): SampledDecision[] {
  const oneOf = <Value>(values: readonly Value[]): Value =>
    values[Math.floor(random() * values.length)] as Value;
  return Array.from({ length: 120 }, (_, n) => {
    const organisation = random() < 0.9 ? oneOf(organisations) : undefined;
    const stack = organisation !== undefined && random() < 0.4 ? oneOf(stacks) : undefined;
    const used = Math.floor(random() * 80);
    const record: DecisionRecord = {
      ...{ v: 1, req: `req_${n.toString(16).padStart(32, '0')}`, gateway: 'gw-1', at: nowMs, position: 1 },
      host: stack === undefined ? 'shared' : 'stack',
      ...(stack !== undefined && { stack }),
      operation: oneOf(['chat', 'messages', 'rerank']),
      ...(organisation === undefined
        ? { visitor: 'v-1' }
        : { organisation, key: `key-${organisation}`, header: 'authorization' }),
      ...{ model: oneOf(models), promptTokens: Math.floor(random() * 4000), maxTokens: 100 },
      ...{ counted: 'bound', stage: 'answer', served: true, status: 200, outcome: 'completed' },
      counters: {
        ...{ windowUsed: used, inFlight: Math.floor(used / 10), poolTokens: used * 1000, freeTurns: 0 },
        requests: { here: used, room: 1000 },
        concurrency: { here: Math.floor(used / 10), room: 1000 },
      },
      ms: { end: 10 },
    };
    return { record, requests: 1 + Math.floor(random() * 3) };
  });
}

let differing = 0;
afterAll(() => expect(differing).toBeGreaterThan(100));

test.each([...changingTypes, 'key.revoked' as const, 'usage.adjusted' as const, 'mixed' as const])(
  'recorded requests changed by a random %s are those that differ when decided one by one',
  (type) => {
    for (let seed = 1; seed <= runs({ fast: 3, full: 4 }); seed++) {
      const random = seededRandom(seed);
      const fleet = [...servingFleet(random), keys];
      const before = snapshotOf(fleet);
      const context = { seq: before.seq + 1, atMs: nowMs, by: 'operator' };
      const events: KnownEvent[] = [];
      for (let tries = 0; tries < 8; tries++) {
        const drawn = changingTypes[Math.floor(random() * changingTypes.length)] ?? 'tier.set';
        const event =
          type === 'key.revoked'
            ? known(type, { id: `key-${organisations[tries % 5]}` })
            : randomEvent(random, type === 'mixed' ? drawn : type);
        const next = [...events, event];
        const isFolded = before.stateAt(
          { kind: 'previewed', events: next, context },
          (_state, passedOver) => passedOver.length === 0,
        );
        if (isFolded) events.push(event);
      }
      const after = snapshotOf([...fleet, events]);
      const records = randomSample(random);
      const lookups = [before, after].map(({ db }) => createLookup(db));
      const each = records
        .map((one) => {
          const question = questionFromRecord(one.record);
          const [from = '', to = ''] = lookups.map((lookup) =>
            answerLabel(decideWithLookup(lookup, question).verdict),
          );
          return { ...one, from, to };
        })
        .filter(({ from }) => isServed(from));
      const turned = each.filter(({ from, to }) => from !== to);
      const sum = (of: readonly SampledDecision[]): number =>
        of.reduce((all, { requests }) => all + requests, 0);
      const found = atOnce(effectSteps(before, { events, by: 'operator', nowMs, records })).recorded;
      expect(found, `seed ${seed}`).toMatchObject({
        ...{ decided: each.length, asked: sum(each), differ: sum(turned) },
        refused: sum(turned.filter(({ to }) => !isServed(to))),
        lost: organisations.filter((organisation) => {
          const own = each.filter(({ record }) => record.organisation === organisation);
          return own.length > 0 && own.every(({ to }) => !isServed(to));
        }),
      });
      for (const { organisation, host, model, operation = 'chat', from, to, requests } of found?.groups ??
        []) {
        const own = turned.filter(
          ({ record, ...answers }) =>
            record.organisation === organisation &&
            (record.stack ?? 'shared') === host &&
            record.model === model &&
            record.operation === operation &&
            answers.from === from &&
            answers.to === to,
        );
        expect(sum(own)).toBe(requests);
      }
      differing += turned.length;
    }
  },
);

test('requests whose refusal is intended are not counted among the requests asked about', () => {
  const random = seededRandom(7);
  const before = snapshotOf([...servingFleet(random), keys]);
  const records = randomSample(random);
  const events = [known('organisation.suspended', { id: 'org-1', suspended: true })];
  const foundOf = (meant?: MeantRefusals) =>
    atOnce(effectSteps(before, { events, by: 'operator', nowMs, records, meant })).recorded;
  const all = foundOf();
  const [lost] = all?.lost ?? [];
  expect(lost).toBe('org-1');
  const rest = { asked: (all?.asked ?? 0) - (all?.refused ?? 0), refused: 0, lost: [] };
  expect(foundOf({ organisations: ['org-1'], keys: [] })).toMatchObject(rest);
  expect(foundOf({ organisations: [], keys: ['key-org-1'] })).toMatchObject(rest);
});

test('requests without a key are not counted, so that nobody can make the refused share look small', () => {
  const random = seededRandom(7);
  const before = snapshotOf([...servingFleet(random), keys]);
  const records = randomSample(random);
  const events = [known('organisation.suspended', { id: 'org-1', suspended: true })];
  const [{ record: some }] = records as [SampledDecision];
  const listing: DecisionRecord = {
    ...{ v: 1, req: some.req, gateway: 'gw-1', at: nowMs, position: 1, host: 'shared', operation: 'models' },
    ...{ stage: 'admission', served: true, status: 200, outcome: 'completed', counted: 'bound' },
    ...{ counters: {}, ms: { end: 1 }, fault: 'missing', carried: false },
  } as DecisionRecord;
  const foundOf = (all: readonly SampledDecision[]) =>
    atOnce(effectSteps(before, { events, by: 'operator', nowMs, records: all })).recorded;
  const flood = { record: listing, requests: 1_000_000 };
  expect(foundOf([...records, flood])).toEqual(foundOf(records));
});

test('unreadable lines of a sample are skipped, as are those of other organisations', () => {
  const [one] = randomSample(seededRandom(1));
  const record = { ...one?.record, organisation: 'org-1' };
  const lineOf = (more: object) => `${JSON.stringify({ requests: 2, decision: { ...record, ...more } })}\n`;
  const texts = [lineOf({}) + lineOf({ at: 'yesterday' }), lineOf({ organisation: 'org-2' })];
  expect(atOnce(parseSample(texts, undefined))).toHaveLength(2);
  expect(atOnce(parseSample(texts, 'org-2')).map((each) => each.record.organisation)).toEqual(['org-2']);
});
