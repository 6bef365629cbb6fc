/**
 * Tests how a gateway samples its decisions: those completed since a given time, each with the number of requests that it
 * represents.
 */
import { beforeEach, expect, test } from 'vitest';
import {
  gatewayQuerySchema,
  gatewaySampledSchema,
  gatewaySampleEndSchema,
} from '../../schemas/admin/gateway-requests.ts';
import { type RecordedName, recordedNames } from '../../schemas/records/request-record.ts';
import { folderOfTest } from '../../test/support/folders.ts';
import { SegmentLog } from '../usage/segment-log.ts';
import { DecisionJournal } from './decision-journal.ts';
import { groupHeading, RecordGroupBuffer } from './record-group.ts';
import { requestSample } from './sample-requests.ts';

let folder: string;
beforeEach(() => {
  folder = folderOfTest('sample');
});

type RecordedValues = Partial<Record<RecordedName, string | number | boolean>>;
const groupSize = 50;
const startMs = 1_700_000_000_000;
const idOf = (n: number): string => `req_${n.toString(16).padStart(32, '0')}`;

/** Every tenth request is refused, every tenth ends early, and every tenth belongs to another organisation. */
function knownOf(n: number): RecordedValues {
  const served = n % 10 !== 0;
  return {
    ...{ request: idOf(n), atMs: startMs + n * 1000, position: 3, host: 'shared', operation: 'chat' },
    ...{ served, status: served ? 200 : 429, stage: served ? 'answer' : 'admission' },
    outcome: n % 10 === 1 ? 'ended by client' : 'completed',
    ...{ organisation: n % 10 === 2 ? 'small' : 'large', key: 'key-1', model: 'm-1', end: 10 },
  };
}

async function write(count: number): Promise<void> {
  const log = new SegmentLog(folder, { heading: groupHeading, segmentBytes: 20_000 });
  for (let from = 0; from < count; from += groupSize) {
    const buffer = new RecordGroupBuffer(groupSize);
    for (let n = from; n < from + groupSize; n++) buffer.add(recordedNames.map((name) => knownOf(n)[name]));
    await log.append(buffer.take(), startMs + (from + groupSize - 1) * 1000);
  }
  await log.close();
}

async function sampleOf(more: object, { oneIn = 1, charactersMax = 1e9 } = {}) {
  const journal = new DecisionJournal({ folder, gateway: 'gw-1', oneIn });
  const lines: unknown[] = [];
  for await (const page of requestSample(journal, gatewayQuerySchema.parse(more), { charactersMax }))
    lines.push(...page.map((line) => JSON.parse(line)));
  await journal.close();
  const end = gatewaySampleEndSchema.parse(lines.pop());
  return { sampled: lines.map((line) => gatewaySampledSchema.parse(line)), ...end };
}

const requestsOf = (sampled: readonly { requests: number }[]): number =>
  Math.round(sampled.reduce((sum, { requests }) => sum + requests, 0));

test('completed requests are sampled evenly over organisations, and their weights add up to all', async () => {
  await write(1000);
  const sinceMs = startMs + 500_000;
  const found = await sampleOf({ sinceMs, sampled: 60 });
  expect(found.sinceMs).toBe(sinceMs);
  expect(found.sampled).toHaveLength(60);
  const of = (organisation: string) =>
    found.sampled.filter(({ decision }) => decision.organisation === organisation);
  expect([of('small').length, of('large').length]).toEqual([30, 30]);
  expect([requestsOf(of('small')), requestsOf(of('large'))]).toEqual([50, 350]);
  for (const { decision } of found.sampled) {
    expect([decision.served, decision.outcome, decision.gateway]).toEqual([true, 'completed', 'gw-1']);
    expect(decision.at).toBeGreaterThanOrEqual(sinceMs);
  }
});

test('a sample of one organisation also scales up a journal that keeps one request in N', async () => {
  await write(100);
  const { sampled } = await sampleOf({ organisation: 'small' }, { oneIn: 7 });
  expect([sampled.length, requestsOf(sampled)]).toEqual([10, 70]);
});

test('a sample reads a limited amount, newest first, and reports how far back it reaches', async () => {
  await write(1000);
  const { sampled, sinceMs } = await sampleOf({}, { charactersMax: 20_000 });
  expect(sampled.length).toBeGreaterThan(20);
  expect(sampled.length).toBeLessThan(400);
  expect(sinceMs).toBe(Math.min(...sampled.map(({ decision }) => decision.at)));
  expect(sinceMs).toBeGreaterThan(startMs);
});
