/** Tests the cost of reading requests: reads and memory must be limited, and other work must run between groups. */
import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { gatewayQuerySchema } from '../../schemas/admin/gateway-requests.ts';
import { type RecordedName, recordedNames } from '../../schemas/records/request-record.ts';
import { folderOfTest } from '../../test/support/folders.ts';
import { SegmentLog } from '../usage/segment-log.ts';
import { DecisionJournal } from './decision-journal.ts';
import { followedRequests, requestPages } from './read-requests.ts';
import { groupHeading, RecordGroupBuffer } from './record-group.ts';
import { mayHave } from './request-row.ts';

let folder: string;
beforeEach(() => {
  folder = folderOfTest('read');
});

const startMs = 1_700_000_000_000;
const idOf = (n: number): string => `req_${n.toString(16).padStart(32, '0')}`;
function recordOf(n: number, more: Partial<Record<RecordedName, string | number | boolean>> = {}) {
  const known = { request: idOf(n), atMs: startMs + n, served: true, status: 200, end: 10, ...more };
  return recordedNames.map((name) => (known as Partial<Record<RecordedName, string>>)[name]);
}

/** Writes groups of ten records, as an earlier process would have left them. */
async function write(count: number, segmentBytes: number): Promise<void> {
  const log = new SegmentLog(folder, { heading: groupHeading, segmentBytes });
  for (let from = 0; from < count; from += 10) {
    const buffer = new RecordGroupBuffer(10);
    for (let n = from; n < Math.min(from + 10, count); n++) buffer.add(recordOf(n));
    await log.append(buffer.take(), startMs + from);
  }
  await log.close();
}

function journalOf(): DecisionJournal {
  const journal = new DecisionJournal({ folder, gateway: 'gw-1', oneIn: 1 });
  onTestFinished(() => journal.close());
  return journal;
}

const queryOf = (more: object = {}) => gatewayQuerySchema.parse(more);
async function linesOf(pages: AsyncIterable<readonly string[]>): Promise<Record<string, unknown>[]> {
  const lines: Record<string, unknown>[] = [];
  for await (const page of pages) lines.push(...page.map((line) => JSON.parse(line)));
  return lines;
}

test('each response reads a limited amount and says where to continue, and together they contain each row once', async () => {
  await write(200, 4_000);
  const journal = journalOf();
  const found: unknown[] = [];
  let before: unknown = Number.MAX_SAFE_INTEGER;
  let answers = 0;
  for (; before !== undefined && before !== 0; answers++) {
    const lines = await linesOf(requestPages(journal, queryOf({ before }), { charactersMax: 3000 }));
    const rows = lines.slice(0, -1);
    expect(rows.length).toBeLessThanOrEqual(200 / 4);
    found.push(...rows.map(({ request }) => request));
    before = lines.at(-1)?.['before'];
  }
  expect(answers).toBeGreaterThan(4);
  expect(found).toEqual(Array.from({ length: 200 }, (_, n) => idOf(199 - n)));
});

test('a segment excluded by position or time is not read', async () => {
  await write(200, 1_000);
  const files = readdirSync(folder).sort();
  expect(files.length).toBeGreaterThan(5);
  const journal = journalOf();
  const newest = await linesOf(requestPages(journal, queryOf({ limit: 10 })));
  // Put a folder in place of the oldest file, so that the query fails if it reads that file.
  const oldest = join(folder, files[0] ?? '');
  rmSync(oldest);
  mkdirSync(oldest);
  expect(await linesOf(requestPages(journal, queryOf({ limit: 10 })))).toEqual(newest);
  await expect(linesOf(requestPages(journal, queryOf()))).rejects.toThrow('did not answer');
});

test('other work gets a turn between two groups', async () => {
  await write(500, 1_000_000);
  let turns = 0;
  let isReading = true;
  const turn = (): void => {
    turns++;
    if (isReading) setImmediate(turn);
  };
  setImmediate(turn);
  await linesOf(requestPages(journalOf(), queryOf({ key: 'of-nobody' })));
  isReading = false;
  expect(turns).toBeGreaterThanOrEqual(50);
});

test('a group without matching rows is searched but not parsed', () => {
  const group = JSON.stringify([
    recordOf(1, { type: 'NotFoundError', served: false }),
    recordOf(2, { key: 'key-1' }),
  ]);
  const has = (more: object): boolean => mayHave(queryOf(more))(group);
  expect([has({}), has({ key: 'key-1' }), has({ outcome: 'refused' }), has({ outcome: 'served' })]).toEqual(
    Array(4).fill(true),
  );
  expect([has({ key: 'key-2' }), has({ outcome: 'ended' }), has({ type: 'InternalError' })]).toEqual(
    Array(3).fill(false),
  );
  // Filters match exactly, so part of a name finds nothing.
  expect(has({ key: 'key' })).toBe(false);
});

test.each([
  [{}, 1000],
  [{ rowsPerSecond: 25 }, 10],
])(
  'the rows waiting for a follower of %j are limited, others are counted, and nobody follows at the end',
  async (asked, most) => {
    const followers = new Set<(request: ReturnType<typeof recordOf>) => void>();
    const journal: Parameters<typeof followedRequests>[0] = {
      follow: (follower) => {
        followers.add(follower);
        return () => followers.delete(follower);
      },
    };
    const end = new AbortController();
    const pages = followedRequests(journal, queryOf(asked), end.signal);
    expect((await pages.next()).value).toEqual(['{"missed":0}\n']);
    for (let n = 0; n < 10_000; n++) for (const follower of followers) follower(recordOf(n));
    const { value: lines = [] } = await pages.next();
    expect([lines.length, lines.at(-1)]).toEqual([most + 1, `{"missed":${10_000 - most}}\n`]);
    end.abort();
    expect((await pages.next()).done).toBe(true);
    expect(followers.size).toBe(0);
  },
);

test('a new row goes to the follower, and rows added without a follower are kept as before', async () => {
  const journal = journalOf();
  const seen: unknown[] = [];
  const stop = journal.follow(([request]) => seen.push(request));
  journal.addEarly(recordOf(1));
  stop();
  journal.addEarly(recordOf(2));
  expect(seen).toEqual([idOf(1)]);
  const rows = (await linesOf(requestPages(journal, queryOf()))).slice(0, -1);
  expect(rows.map(({ request }) => request)).toEqual([idOf(2), idOf(1)]);
});
