// Goal: statistics cost the thread of the requests next to nothing, however many requests they are of; and the answer is whole.
// Method: the built thread on a journal of many requests, by the processor time of the thread that asks, which load cannot lengthen.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { gatewayQuerySchema } from '../../schemas/gateway-requests.ts';
import { type RecordedName, recordedNames } from '../../schemas/request-record.ts';
import { SegmentLog } from '../segments/segment-log.ts';
import { groupHeading, RecordGroupBuffer } from './record-group.ts';

/** A thread runs built code alone. */
const built = (name: string): string =>
  new URL(`../../dist/data-plane/records/${name}`, import.meta.url).pathname;
const { DecisionJournal, JournalSilent } = (await import(
  built('decision-journal.js')
)) as typeof import('./decision-journal.ts');
const { requestStats } = (await import(built('request-stats.js'))) as typeof import('./request-stats.ts');

const startMs = 1_700_000_000_000;
const perGroup = 500;

let folder: string;
let journal: InstanceType<typeof DecisionJournal>;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'headgate-stats-'));
  journal = new DecisionJournal({ folder, gateway: 'gw-1', oneIn: 1 });
});
afterEach(async () => {
  await journal.close();
  rmSync(folder, { recursive: true });
});

function recordOf(n: number) {
  const known: Partial<Record<RecordedName, string | number | boolean>> = {
    ...{ request: `req_${n.toString(16).padStart(32, '0')}`, atMs: startMs + n, served: true, status: 200 },
    ...{ organisation: `org-${n % 10}`, model: 'echo-small', node: `node-${n % 7}`, begun: n % 1000 },
    ...{ promptTokens: 10, completionTokens: 2, end: 500 },
  };
  return recordedNames.map((name) => known[name]);
}

async function write(count: number): Promise<void> {
  const log = new SegmentLog(folder, { heading: groupHeading });
  for (let from = 0; from < count; from += perGroup) {
    const buffer = new RecordGroupBuffer(perGroup);
    for (let n = from; n < from + perGroup; n++) buffer.add(recordOf(n));
    await log.append(buffer.take(), startMs + from);
  }
  await log.close();
}

/** Of this thread so far, exactly. */
const threadMs = (): number =>
  Number(readFileSync('/proc/thread-self/schedstat', 'utf8').split(' ')[0]) / 1e6;

const query = gatewayQuerySchema.parse({ by: 'organisation' });
async function answered(client = new AbortController().signal): Promise<Record<string, unknown>[]> {
  const lines: Record<string, unknown>[] = [];
  for await (const page of requestStats(journal, query, client))
    lines.push(...page.map((line) => JSON.parse(line)));
  return lines;
}

test('sums of 60 000 requests take a few ms of the thread that asks, and what was just added is among them', async () => {
  await write(60_000);
  await answered();
  journal.addEarly(recordOf(60_000));
  const beforeMs = threadMs();
  const lines = await answered();
  // Reading them here took half a second.
  expect(threadMs() - beforeMs).toBeLessThan(60);
  expect(lines.at(-1)).toEqual({ partial: false });
  expect(lines).toHaveLength(11);
  expect(lines.reduce((sum, { requests }) => sum + Number(requests ?? 0), 0)).toBe(60_001);
});

test('the thread of a client that left ends, and the next question is answered', async () => {
  await write(60_000);
  const left = new AbortController();
  const asked = answered(left.signal);
  const next = answered();
  setTimeout(() => left.abort(), 50);
  await expect(asked).rejects.toThrow(JournalSilent);
  expect((await next).at(-1)).toEqual({ partial: false });
});
