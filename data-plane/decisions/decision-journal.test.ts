/** What the journal keeps, and that no fault of its file reaches a request. */
import { mkdirSync, mkdtempSync, openSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { DecisionRecord } from '../../schemas/decisions.ts';
import { Refusal } from '../../shared/decision/refusal.ts';
import { openDatabase } from '../../shared/runtime/sqlite.ts';
import { until } from '../../test/support/until.ts';
import { mintRequestId } from '../core/request-id.ts';
import type { RequestRecord } from '../request/gateway.ts';
import { compact } from './compact.ts';
import { DecisionFile } from './decision-file.ts';
import { groupOf } from './decision-group.ts';
import { DecisionJournal, type DecisionJournalOptions, JournalSilent } from './decision-journal.ts';

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

const moment = { isKnown: () => true, position: () => 7 };

function journalOf(oneIn = 1, more: Partial<DecisionJournalOptions> = {}): DecisionJournal {
  const onEnd = (): void => undefined;
  const journal = new DecisionJournal({ path, gateway: 'gw-1', oneIn, moment, onEnd, ...more });
  open.push(journal);
  return journal;
}

/** As a request leaves it; one that was refused, or ended early, where that is given. */
function requestOf(more: object = {}): RequestRecord {
  return {
    request: { headers: {} },
    response: { statusCode: 200 },
    ids: { requestId: mintRequestId() },
    at: {},
    startMs: performance.now(),
    operation: { kind: 'models' },
    target: { kind: 'shared' },
    ...more,
  } as unknown as RequestRecord;
}

const refusal = { type: 'Unauthorized', status: 401, reason: 'missing', message: 'No key.' };
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
  for (let n = 0; n < 100; n++) journal.add(requestOf());
  for (const one of [...refused, early]) journal.add(one);
  await settled(journal, 18);
  const ids = await idsIn(journal);
  expect(ids).toHaveLength(18);
  for (const { ids: own } of [...refused, early]) expect(ids).toContain(own.requestId);
});

test('of refusals of unknown callers so many a second are kept, and all of those that a key is known of', async () => {
  const journal = journalOf(10, { ofUnknownCallers: { burst: 5, perSecond: 0 } });
  const early = () => ({ requestId: mintRequestId(), refusal: new Refusal('NotFoundError', 'none') });
  const ofKey = { ...refusal, reason: 'revoked', keyId: 'key-1' };
  const known = [{ refusal: ofKey }, { refusal, caller: { kind: 'anonymous', visitor: 'v' } }].map(requestOf);
  for (let n = 0; n < 4; n++) {
    journal.addEarly(early());
    journal.add(requestOf({ refusal }));
  }
  for (const one of known) journal.add(one);
  await settled(journal, 10);
  expect(journal.state).toMatchObject({ written: 7, dropped: 3 });
  const ids = await idsIn(journal);
  for (const { ids: own } of known) expect(ids).toContain(own.requestId);
});

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
  journal.add(one);
  await settled(journal, 1);
  expect(journal.state).toMatchObject({ written: 1, dropped: 0 });
  expect(await journal.find(one.ids.requestId)).toMatchObject({ req: one.ids.requestId, position: 7 });
});

test('a file that is damaged while it is open costs what could not be written, and is begun again', async () => {
  const journal = journalOf();
  for (let n = 0; n < 600; n++) journal.add(requestOf());
  await settled(journal, 600);
  expect(journal.state).toMatchObject({ written: 600, dropped: 0 });
  const file = openSync(path, 'r+');
  writeSync(file, Buffer.alloc(64 * 1024, 7), 0, 64 * 1024, 0);
  rmSync(`${path}-wal`);
  let sent = 600;
  await until(async () => {
    const one = requestOf();
    journal.add(one);
    await settled(journal, ++sent);
    return (await journal.find(one.ids.requestId).catch(() => undefined)) !== undefined;
  });
  const { written, dropped } = journal.state;
  expect(written + dropped).toBe(sent);
});

test('where the file cannot be made, decisions are dropped and counted, and later ones kept', async () => {
  mkdirSync(path);
  const journal = journalOf();
  journal.add(requestOf());
  await settled(journal, 1);
  expect(journal.state).toMatchObject({ written: 0, dropped: 1 });
  rmSync(path, { recursive: true });
  journal.add(requestOf());
  await settled(journal, 2);
  expect(journal.state).toMatchObject({ written: 1, dropped: 1 });
});

test('the ring holds a day and its bytes, the newest of them', () => {
  const bounds = { ageMsMax: 1000, bytesMax: 512 * 1024 };
  const file = new DecisionFile(path, bounds);
  const at = (nowMs: number) => compact(requestOf(), { ...moment, nowMs, position: 7 });
  const write = (...times: number[]) => file.write(groupOf(times.map(at)), Math.max(...times));
  write(1000);
  write(1500);
  write(2100);
  expect(file.page(0, 0, 10).map(({ cells }) => JSON.parse(cells)[2])).toEqual([1500, 2100]);
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
  journal.add(one);
  const asked = Array.from({ length: 10 }, () => journal.find(one.ids.requestId));
  const answers = await Promise.allSettled(asked);
  expect(answers.filter(({ status }) => status === 'fulfilled')).toHaveLength(4);
  for (const answer of answers)
    if (answer.status === 'rejected') expect(answer.reason).toBeInstanceOf(JournalSilent);
  expect(await journal.find(one.ids.requestId)).toMatchObject({ req: one.ids.requestId });
});
