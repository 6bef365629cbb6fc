// Tests that a gateway's traffic reports match its answers, stay limited whatever callers send, and lose nothing while the
// log is unreachable. The request records have their final form, and the log accepts or rejects the reports as each test
// wishes.
import { expect, test, vi } from 'vitest';
import {
  addTraffic,
  readTraffic,
  type TrafficReport,
  type TrafficSums,
  trafficBytesMax,
  trafficRowsMax,
} from '../../schemas/records/traffic.ts';
import { Refusal } from '../../shared/decision/refusal.ts';
import type { KeyOwner } from '../../shared/snapshot/lookup.ts';
import type { Exchange } from '../http/exchange.ts';
import { RequestRecord } from '../request/request-record.ts';
import { TrafficReports } from './traffic-reports.ts';

const everyMs = 10_000;
const lookup = {
  isCatalogued: (model: string) => model.startsWith('known'),
  isPooled: (model: string) => model === 'pooled',
  stack: (id: string) =>
    id === 'stk-one' ? ({ organisation: 'org-1', surface: 'openai' } as const) : undefined,
} as ConstructorParameters<typeof TrafficReports>[0];

let inFlight = 0;
const reports = (): TrafficReports => new TrafficReports(lookup, () => inFlight, everyMs);

interface Sent extends Partial<Omit<RequestRecord, 'at'>> {
  readonly organisation?: string;
  readonly key?: string;
  readonly stackAsked?: string;
  readonly at?: Partial<RequestRecord['at']>;
}

/** Returns the record of a request that has ended. Times in `at` are in ms since its start. */
function record({
  organisation = 'org-1',
  key = 'key-1',
  stackAsked,
  at = {},
  ...more
}: Sent = {}): RequestRecord {
  const exchange = { head: { method: 'POST', headers: {} } } as Exchange;
  const made = new RequestRecord(exchange, { requestId: 'req_1', surface: 'openai' }, '/', undefined);
  const times = Object.entries(at).map(([name, ms]) => [name, made.startMs + (ms ?? 0)]);
  Object.assign(made.at, Object.fromEntries(times));
  const target = stackAsked === undefined ? { kind: 'shared' } : { kind: 'stack', stack: stackAsked };
  const caller = { kind: 'key', owner: { organisation, keyId: key } as KeyOwner };
  return Object.assign(made, { target, caller, operation: { kind: 'chat' }, ...more });
}

const completed = (promptTokens: number, completionTokens: number) =>
  ({ kind: 'completed', node: 'n', usage: { promptTokens, completionTokens } }) as RequestRecord['outcome'];
const early = { kind: 'ended-early', node: 'n', by: 'client', reason: '' } as const;
const unavailable = (): Refusal => new Refusal('usage unknown', 'Try again.');
// None of these times is close to the bound of a bucket, because adding a start time makes them slightly inexact.
const times = { accepted: 0.2, read: 100.2, shaped: 100.4, decided: 100.5, sent: 100.7 };

/** Takes a report and parses it as a reader does. */
function last(source: TrafficReports): TrafficReport {
  const report = source.take(true);
  source.settle(true);
  return readTraffic(JSON.parse(JSON.stringify(report))) as TrafficReport;
}

test('requests, early ends, tokens, times and refusals are counted by organisation, stack and model', () => {
  const source = reports();
  inFlight = 2;
  source.add(record({ model: 'pooled', outcome: completed(3, 4), at: times }));
  source.add(
    record({
      model: 'pooled',
      stream: true,
      outcome: completed(5, 6),
      at: { ...times, sent: 102.5, begun: 130 },
    }),
  );
  source.add(record({ model: 'pooled', outcome: early }));
  source.add(record({ model: 'known', stackAsked: 'stk-one', outcome: completed(1, 1), key: 'key-2' }));
  source.add(
    record({ model: 'known', stackAsked: 'stk-one', key: 'key-2', refusal: unavailable(), decidedMs: 9 }),
  );
  source.add(record({ organisation: 'org-2', refusal: unavailable(), decidedMs: 7 }));
  const refused = { status: 503, requests: 1, lastRequest: 'req_1' };
  expect(last(source)).toEqual({
    ...{ v: 1, fromMs: 0, toMs: expect.any(Number), inFlight: 2 },
    rows: [
      {
        ...{ organisation: 'org-1', model: 'pooled', requests: 3, endedEarly: 1 },
        ...{ promptTokens: 8, completionTokens: 10, ownTime: [0, 1, 0, 1], firstToken: [0, 0, 0, 1] },
      },
      {
        ...{ organisation: 'org-1', stack: 'stk-one', model: 'known', requests: 2 },
        ...{ promptTokens: 1, completionTokens: 1 },
        refused: { InferenceUnavailableError: { ...refused, lastAtMs: 9 } },
      },
      {
        organisation: 'org-2',
        requests: 1,
        refused: { InferenceUnavailableError: { ...refused, lastAtMs: 7 } },
      },
    ],
    callers: [{ organisation: 'org-1', stack: 'stk-one', surface: 'openai', key: 'key-2', requests: 2 }],
    nodes: [
      {
        ...{ node: 'n', requests: 4, endedEarly: 1, promptTokens: 9, completionTokens: 11 },
        ...{ ownTime: [0, 1, 0, 1], firstToken: [0, 0, 0, 1] },
      },
    ],
  });
  inFlight = 0;
});

test('a client that leaves before a node is chosen counts for no node, and its report can be read', () => {
  const source = reports();
  source.add(record({ outcome: { ...early, node: '' } }));
  const { rows, nodes } = last(source);
  expect(rows).toEqual([{ organisation: 'org-1', requests: 1, endedEarly: 1 }]);
  expect(nodes ?? []).toEqual([]);
});

test('a refusal before the request was parsed counts for no organisation', () => {
  const source = reports();
  source.addEarly({ requestId: 'req_2', refusal: unavailable() });
  expect(last(source).rows).toMatchObject([
    { requests: 1, refused: { InferenceUnavailableError: { requests: 1 } } },
  ]);
});

test('a name made up by a caller is not kept anywhere', () => {
  const source = reports();
  for (let at = 0; at < 5000; at++)
    source.add(record({ model: `secret-${at}`, stackAsked: `stk-secret-${at}`, refusal: unavailable() }));
  const report = last(source);
  expect(report.rows).toMatchObject([{ organisation: 'org-1', requests: 5000 }]);
  expect(JSON.stringify(report)).not.toContain('secret');
});

test('a report is limited in rows and bytes, lists the largest separately, and omits no count', () => {
  const long = 'x'.repeat(150);
  for (const [name, rowsLeast] of [
    ['', trafficRowsMax],
    [long, 100],
  ] as const) {
    const source = reports();
    let sent = 0;
    for (let org = 1; org <= 2500; org++)
      for (let times = 0; times < (org > 2490 || org <= 5 ? 3 : 1); times++, sent++)
        source.add(
          record({
            organisation: `org-${org}`,
            key: `key-${org}`,
            stackAsked: 'stk-one',
            model: `known${name}`,
          }),
        );
    const report = last(source);
    expect(JSON.stringify(report).length).toBeLessThanOrEqual(trafficBytesMax);
    expect(report.rows.length).toBeGreaterThanOrEqual(rowsLeast);
    expect(report.rows.slice(0, 5).map(({ requests }) => requests)).toEqual(Array(5).fill(3));
    const all: TrafficSums = { requests: 0 };
    for (const row of [...report.rows, report.rest as TrafficSums]) addTraffic(all, row);
    const called = (report.callers ?? []).reduce((sum, { requests }) => sum + requests, 0);
    expect([all.requests, called + (report.otherCallers ?? 0)]).toEqual([sent, sent]);
  }
});

test('counting a request of a known organisation and model allocates nothing', () => {
  const source = reports();
  const one = record({
    model: 'known',
    stackAsked: 'stk-one',
    stream: true,
    outcome: completed(3, 4),
    at: { ...times, begun: 200 },
  });
  const rounds = 100_000;
  for (let round = 0; round < rounds; round++) source.add(one);
  const before = process.memoryUsage().heapUsed;
  for (let round = 0; round < rounds; round++) source.add(one);
  expect((process.memoryUsage().heapUsed - before) / rounds).toBeLessThan(8);
});

test('nothing is reported without traffic or before the interval has passed', () => {
  const now = vi.spyOn(performance, 'now');
  const source = reports();
  now.mockReturnValue(everyMs + 1);
  expect(source.take(false)).toBeUndefined();
  source.add(record());
  now.mockReturnValue(2 * everyMs);
  expect(source.take(false)).toBeUndefined();
  now.mockReturnValue(2 * everyMs + 1);
  expect(source.take(false)).toMatchObject({
    fromMs: everyMs + 1,
    toMs: 2 * everyMs + 1,
    rows: [{ requests: 1 }],
  });
  now.mockRestore();
});

test('a report that the log rejected becomes part of the next one, which covers its time too', () => {
  const source = reports();
  source.add(record({ model: 'known', stackAsked: 'stk-one', refusal: unavailable(), decidedMs: 5 }));
  const first = source.take(true);
  source.add(record({ model: 'known', stackAsked: 'stk-one', outcome: completed(3, 4), at: times }));
  source.add(record({ organisation: 'org-2', model: 'known' }));
  expect(source.take(true)).toBeUndefined();
  source.settle(false);
  const second = last(source);
  expect(second.fromMs).toBe(first?.fromMs);
  expect(second.rows).toMatchObject([
    {
      requests: 2,
      promptTokens: 3,
      ownTime: [0, 1],
      refused: { InferenceUnavailableError: { requests: 1 } },
    },
    { organisation: 'org-2', requests: 1 },
  ]);
  expect(second.callers).toMatchObject([{ requests: 2 }]);
  source.add(record());
  expect(last(source)).toMatchObject({ fromMs: second.toMs, rows: [{ requests: 1 }] });
});

test('a refusal type named like an inherited member is counted like any other', () => {
  const refused = { constructor: { status: 400, requests: 2, lastAtMs: 5, lastRequest: 'req_1' } };
  const sums: TrafficSums = { requests: 2 };
  for (let n = 0; n < 2; n++) addTraffic(sums, { requests: 2, refused });
  expect(sums.refused?.['constructor']).toMatchObject({ requests: 4 });
});
