/** Tests which decisions the journal keeps, and that faults of its file never affect a request. */
import { readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { DecisionRecord } from '../../schemas/records/decisions.ts';
import { unauthorized } from '../../shared/decision/authenticate.ts';
import { cannotTakeNow, Refusal } from '../../shared/decision/refusal.ts';
import { folderOfTest } from '../../test/support/folders.ts';
import { until } from '../../test/support/until.ts';
import type { RequestRecord } from '../request/request-record.ts';
import { mintRequestId } from '../surfaces/common/request-id.ts';
import { SegmentLog } from '../usage/segment-log.ts';
import { DecisionJournal, type DecisionJournalOptions, JournalSilent } from './decision-journal.ts';
import { groupHeading, RecordGroupBuffer } from './record-group.ts';
import { recordedEarly, toRecordedRequest } from './recorded.ts';

let dir: string;
let folder: string;
const open: DecisionJournal[] = [];
beforeEach(() => {
  dir = folderOfTest('journal');
  folder = join(dir, 'records');
});
afterEach(async () => {
  for (const journal of open.splice(0)) await journal.close();
});

const recorded = (record: RequestRecord, nowMs = Date.now()) =>
  toRecordedRequest(record, { nowMs, endMs: performance.now(), position: 7, isKnown: () => true });
const keep = (journal: DecisionJournal, record: RequestRecord): void => journal.add(record, recorded(record));

function journalOf(oneIn = 1, more: Partial<DecisionJournalOptions> = {}): DecisionJournal {
  const journal = new DecisionJournal({ folder, gateway: 'gw-1', oneIn, ...more });
  open.push(journal);
  return journal;
}

/** Returns a completed request with the given differences, such as a refusal or an early end. */
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

test('one in N completed requests is kept, and every request that was refused or ended early', async () => {
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

test('refusals of unknown callers are kept up to a rate, and all refusals of known keys are kept', async () => {
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
  ['anonymous listings', { caller: nobody }, 5],
  ['refused anonymous listings', { caller: nobody, refusal: notListed }, 5],
  ['visitors’ refusals', { caller: visitor, operation: { kind: 'chat' }, refusal: notListed }, 4],
  ['visitors’ listings', { caller: visitor }, 4],
  ['credentials that a fenced gateway refused', { refusal: cannotTakeNow('fenced') }, 3],
  [
    'requests without credentials that a fenced gateway refused',
    { refusal: unauthorized('fenced without a key') },
    5,
  ],
])('%s are kept up to a rate of their own', async (_what, more, kept) => {
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
  'a day of rate-limited decisions, %i per group, fits in the files',
  async (count) => {
    const log = new SegmentLog(folder, { heading: groupHeading });
    const kinds = [
      { refusal: cannotTakeNow('fenced') },
      { refusal: notListed, caller: nobody, operation: { kind: 'model' } },
      { refusal: notListed, caller: visitor, operation: { kind: 'chat' }, model: 'a-model-of-the-state' },
    ];
    const groups = 300;
    for (let n = 0; n < groups; n++) {
      const group = new RecordGroupBuffer(count);
      for (let at = 0; at < count; at++) {
        const one = requestOf({ ...kinds[at % 3], startMs: performance.now() - Math.random() * 1000 });
        group.add(recorded(one, 1_700_000_000_000 + n * 500 + at));
      }
      await log.append(group.take(), Date.now());
    }
    expect((log.bytes / groups) * 2 * 24 * 3600).toBeLessThan(256 * 1024 * 1024);
    await log.close();
  },
);

test('a file damaged while it is open costs no later decision', async () => {
  const journal = journalOf();
  for (let n = 0; n < 600; n++) keep(journal, requestOf());
  await settled(journal, 600);
  for (const name of readdirSync(folder)) writeFileSync(join(folder, name), 'no group at all');
  const later = requestOf();
  keep(journal, later);
  await settled(journal, 601);
  expect(journal.state).toMatchObject({ written: 601, dropped: 0 });
  expect(await journal.find(later.ids.requestId)).toMatchObject({ req: later.ids.requestId, position: 7 });
});

test('if no file can be created, decisions are dropped and counted, and later ones are kept', async () => {
  writeFileSync(folder, 'no folder');
  const journal = journalOf();
  keep(journal, requestOf());
  await settled(journal, 1);
  expect(journal.state).toMatchObject({ written: 0, dropped: 1 });
  await expect(journal.find(mintRequestId())).rejects.toBeInstanceOf(JournalSilent);
  rmSync(folder);
  keep(journal, requestOf());
  await settled(journal, 2);
  expect(journal.state).toMatchObject({ written: 1, dropped: 1 });
});

test('decisions of an earlier process can be read from any requested time on', async () => {
  const first = journalOf();
  const [old, young] = [requestOf(), requestOf()];
  first.add(old, recorded(old, 1000));
  first.add(young, recorded(young, 2000));
  await first.close();
  const second = journalOf();
  const found: DecisionRecord[] = [];
  for await (const page of second.since(1500)) found.push(...page);
  expect(found.map(({ req }) => req)).toEqual([young.ids.requestId]);
  expect(await second.find(old.ids.requestId)).toMatchObject({ req: old.ids.requestId, at: 1000 });
  expect(await second.find('req_')).toBeUndefined();
});

test('a closed journal accepts and returns nothing', async () => {
  const journal = journalOf();
  await journal.close();
  keep(journal, requestOf());
  expect(journal.state).toMatchObject({ written: 0, dropped: 1 });
  await expect(journal.find(mintRequestId())).rejects.toBeInstanceOf(JournalSilent);
});

test('four searches run at once, more are refused, and later ones are answered', async () => {
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

test('a decision too large for any group counts as dropped, and the next one is kept', async () => {
  const journal = journalOf(1);
  const large = requestOf({ refusal });
  journal.add(large, [...recorded(large), 'x'.repeat(300_000)]);
  expect(journal.state.dropped).toBe(1);
  keep(journal, requestOf({ refusal }));
  await settled(journal, 2);
  expect(await idsIn(journal)).toHaveLength(1);
});
