/** What the journal keeps, and that no fault of its file reaches a request. */
import { mkdirSync, mkdtempSync, openSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { DecisionRecord } from '../../schemas/decisions.ts';
import { unauthorized } from '../../shared/decision/authenticate.ts';
import { cannotTakeNow, Refusal } from '../../shared/decision/refusal.ts';
import { openDatabase } from '../../shared/runtime/sqlite.ts';
import { until } from '../../test/support/until.ts';
import { mintRequestId } from '../core/request-id.ts';
import type { RequestRecord } from '../request/gateway.ts';
import { DecisionFile } from './decision-file.ts';
import { groupOf } from './decision-group.ts';
import { DecisionJournal, type DecisionJournalOptions, JournalSilent } from './decision-journal.ts';
import { recordedEarly, recordedOf } from './recorded.ts';

let dir: string;
let path: string;
const open: DecisionJournal[] = [];
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'headgate-journal-'));
  path = join(dir, 'decisions.db');
});
afterEach(async () => {
  for (const journal of open.splice(0)) await journal.close();
  rmSync(dir, { recursive: true });
});

const recorded = (record: RequestRecord, nowMs = Date.now()) =>
  recordedOf(record, { nowMs, endMs: performance.now(), position: 7, isKnown: () => true });
const keep = (journal: DecisionJournal, record: RequestRecord): void => journal.add(record, recorded(record));

function journalOf(oneIn = 1, more: Partial<DecisionJournalOptions> = {}): DecisionJournal {
  const onEnd = (): void => undefined;
  const journal = new DecisionJournal({ path, gateway: 'gw-1', oneIn, onEnd, ...more });
  open.push(journal);
  return journal;
}

/** As a request leaves it; one that was refused, or ended early, where that is given. */
function requestOf(more: object = {}): RequestRecord {
  return {
    status: 200,
    ids: { requestId: mintRequestId() },
    at: {},
    startMs: performance.now(),
    operation: { kind: 'models' },
    target: { kind: 'shared' },
    ...more,
  } as unknown as RequestRecord;
}

const refusal = unauthorized('missing');
const idsIn = async (journal: DecisionJournal): Promise<string[]> => {
  const found: DecisionRecord[] = [];
  for await (const page of journal.since(0)) found.push(...page);
  return found.map(({ req }) => req);
};
const settled = (journal: DecisionJournal, count: number): Promise<unknown> =>
  until(() => journal.state.written + journal.state.dropped >= count);

test('of completed requests one in N is kept, of refused ones and those that ended early all', async () => {
  const journal = journalOf(10);
  const refused = Array.from({ length: 7 }, () => requestOf({ refusal }));
  const early = requestOf({ outcome: { kind: 'ended-early', node: 'n', by: 'client', reason: 'gone' } });
  for (let n = 0; n < 100; n++) keep(journal, requestOf());
  for (const one of [...refused, early]) keep(journal, one);
  await settled(journal, 18);
  const ids = await idsIn(journal);
  expect(ids).toHaveLength(18);
  for (const { ids: own } of [...refused, early]) expect(ids).toContain(own.requestId);
});

const limits = {
  unknown: { burst: 5, perSecond: 0 },
  visitor: { burst: 4, perSecond: 0 },
  fenced: { burst: 3, perSecond: 0 },
};

test('of refusals of unknown callers so many a second are kept, and all of those that a key is known of', async () => {
  const journal = journalOf(10, { limits });
  const early = () => ({ requestId: mintRequestId(), refusal: new Refusal('no such call', 'none') });
  const ofKey = unauthorized('revoked', 'key-1');
  const known = [{ refusal: ofKey }, { refusal, caller: { kind: 'anonymous', visitor: 'v' } }].map(requestOf);
  for (let n = 0; n < 4; n++) {
    journal.addEarly(recordedEarly(early(), { nowMs: Date.now(), position: 7 }));
    keep(journal, requestOf({ refusal }));
  }
  for (const one of known) keep(journal, one);
  await settled(journal, 10);
  expect(journal.state).toMatchObject({ written: 7, dropped: 3 });
  const ids = await idsIn(journal);
  for (const { ids: own } of known) expect(ids).toContain(own.requestId);
});

const notListed = new Refusal('not listed by the pool', 'none');
const nobody = { kind: 'nobody' };
const visitor = { kind: 'anonymous', visitor: 'v' };
test.each([
  ['listings that nobody asked for', { caller: nobody }, 5],
  ['refused listings of nobody', { caller: nobody, refusal: notListed }, 5],
  ['refusals of visitors', { caller: visitor, operation: { kind: 'chat' }, refusal: notListed }, 4],
  ['listings of visitors', { caller: visitor }, 4],
  ['credentials that a fenced gateway refused', { refusal: cannotTakeNow('fenced') }, 3],
  [
    'what a fenced gateway refused without a credential',
    { refusal: unauthorized('fenced without a key') },
    5,
  ],
])('of %s so many a second are kept, with a limit of their own', async (_what, more, kept) => {
  const journal = journalOf(1, { limits });
  const asked = Array.from({ length: 20 }, () => requestOf(more));
  for (const one of asked) keep(journal, one);
  for (let n = 0; n < 20; n++) {
    keep(journal, requestOf({ refusal }));
    keep(journal, requestOf({ refusal, caller: visitor }));
    keep(journal, requestOf({ refusal: cannotTakeNow('fenced') }));
    keep(journal, requestOf({ caller: { kind: 'key', owner: { organisation: 'o', keyId: 'k' } } }));
    keep(journal, requestOf({ caller: visitor, operation: { kind: 'chat' } }));
  }
  const ids = new Set(await idsIn(journal));
  expect(asked.filter(({ ids: { requestId } }) => ids.has(requestId))).toHaveLength(kept);
  expect(ids.size).toBe(5 + 4 + 3 + 2 * 20);
});

test.each([2, 3, 5, 7, 8])(
  'a day of limited kinds, %i decisions in each group, is less than the file may hold',
  (count) => {
    const file = new DecisionFile(path);
    const kinds = [
      { refusal: cannotTakeNow('fenced') },
      { refusal: notListed, caller: nobody, operation: { kind: 'model' } },
      { refusal: notListed, caller: visitor, operation: { kind: 'chat' }, model: 'a-model-of-the-state' },
    ];
    const decisionOf = (n: number) => {
      const one = requestOf({ ...kinds[n % 3], startMs: performance.now() - Math.random() * 1000 });
      return recorded(one, 1_700_000_000_000 + n * 67);
    };
    const groups = 300;
    for (let n = 0; n < groups; n++)
      file.write(
        groupOf(Array.from({ length: count }, (_, at) => decisionOf(n * count + at))),
        Date.now() - 1e12,
      );
    expect((file.bytes() / groups) * 2 * 24 * 3600).toBeLessThan(256 * 1024 * 1024);
    file.close();
  },
);

const spoiled: [string, () => void][] = [
  [
    'is no database',
    () => writeFileSync(path, 'no database at all, but a text that is long enough to be read'),
  ],
  [
    'has another version',
    () => openDatabase(path, { durability: 'normal' }).exec('PRAGMA user_version = 9').close(),
  ],
  [
    'has lost its table',
    () => openDatabase(path, { durability: 'normal' }).exec('PRAGMA user_version = 1').close(),
  ],
];
test.each(spoiled)('a file that %s is begun again', async (_what, spoil) => {
  spoil();
  const journal = journalOf();
  const one = requestOf();
  keep(journal, one);
  await settled(journal, 1);
  expect(journal.state).toMatchObject({ written: 1, dropped: 0 });
  expect(await journal.find(one.ids.requestId)).toMatchObject({ req: one.ids.requestId, position: 7 });
});

test('a file that is damaged while it is open costs what could not be written, and is begun again', async () => {
  const journal = journalOf();
  for (let n = 0; n < 600; n++) keep(journal, requestOf());
  await settled(journal, 600);
  expect(journal.state).toMatchObject({ written: 600, dropped: 0 });
  const file = openSync(path, 'r+');
  writeSync(file, Buffer.alloc(64 * 1024, 7), 0, 64 * 1024, 0);
  rmSync(`${path}-wal`);
  let sent = 600;
  await until(async () => {
    const one = requestOf();
    keep(journal, one);
    await settled(journal, ++sent);
    return (await journal.find(one.ids.requestId).catch(() => undefined)) !== undefined;
  });
  const { written, dropped } = journal.state;
  expect(written + dropped).toBe(sent);
});

test('where the file cannot be made, decisions are dropped and counted, and later ones kept', async () => {
  mkdirSync(path);
  const journal = journalOf();
  keep(journal, requestOf());
  await settled(journal, 1);
  expect(journal.state).toMatchObject({ written: 0, dropped: 1 });
  rmSync(path, { recursive: true });
  keep(journal, requestOf());
  await settled(journal, 2);
  expect(journal.state).toMatchObject({ written: 1, dropped: 1 });
});

test('the ring holds a day and its bytes, the newest of them', () => {
  const bounds = { ageMsMax: 1000, bytesMax: 512 * 1024 };
  const file = new DecisionFile(path, bounds);
  const at = (nowMs: number) => recorded(requestOf(), nowMs);
  const write = (...times: number[]) => file.write(groupOf(times.map(at)), Math.max(...times));
  write(1000);
  write(1500);
  write(2100);
  expect(file.page(0, 0, 10).map(({ cells }) => JSON.parse(cells)[1])).toEqual([1500, 2100]);
  for (let n = 0; n < 60; n++) {
    write(...Array.from({ length: 500 }, () => 2200));
    expect(file.bytes()).toBeLessThan(bounds.bytesMax + 256 * 1024);
  }
  expect(file.count()).toBeGreaterThan(1000);
  expect(file.count()).toBeLessThan(30_000);
  file.close();
});

test('at once it searches for four; more are refused, and later ones answered', async () => {
  const journal = journalOf();
  const one = requestOf();
  keep(journal, one);
  const asked = Array.from({ length: 10 }, () => journal.find(one.ids.requestId));
  const answers = await Promise.allSettled(asked);
  expect(answers.filter(({ status }) => status === 'fulfilled')).toHaveLength(4);
  for (const answer of answers)
    if (answer.status === 'rejected') expect(answer.reason).toBeInstanceOf(JournalSilent);
  expect(await journal.find(one.ids.requestId)).toMatchObject({ req: one.ids.requestId });
});
