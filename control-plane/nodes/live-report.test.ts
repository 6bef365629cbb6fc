import { expect, test } from 'vitest';
import {
  type Beat,
  heartbeatIntervalMs,
  installsPerNodeMax,
  type LiveNode,
} from '../../schemas/records/node-messages.ts';
import { statusBytesMax } from '../../schemas/records/status.ts';
import { encode } from '../../shared/status/status-publisher.ts';
import { reportOf as statusOf } from '../../test/support/status-reports.ts';
import { buildNodesReport, toHeldHeartbeat } from './live-report.ts';

/** Text of characters that take six bytes each in JSON. */
const worst = '\ud800'.repeat(200);
const install = { model: worst, state: 'failed', reason: worst } as const;
const heartbeat = (more: Partial<Beat> = {}): Beat => ({ type: 'beat', up: true, models: [], ...more });
const nodeId = (n: number): string => `node-${n}-`.padEnd(60, 'x');

function live(count: number, of: Beat): Map<string, LiveNode> {
  const node = { beatSeconds: heartbeatIntervalMs / 1000, ...toHeldHeartbeat(of) };
  return new Map(Array.from({ length: count }, (_, n) => [nodeId(n), node]));
}

test('the kept part of a heartbeat is bounded for any models and reasons, and counts omitted entries', () => {
  const most = heartbeat({
    models: Array.from({ length: 1000 }, () => worst),
    windows: { [worst]: 1 },
    installs: Array.from({ length: installsPerNodeMax }, () => install),
    inFlight: 3,
  });
  const held = toHeldHeartbeat(most);
  expect(held).toMatchObject({ inFlight: 3, installsOmitted: installsPerNodeMax - 20 });
  expect(held.installs).toHaveLength(20);
  expect(toHeldHeartbeat(heartbeat({ installs: [install] }))).toEqual({ installs: [install] });
});

test.each([
  ['one node without installs', 1, 0],
  ['2000 nodes without installs', 2000, 0],
  ['120 nodes of hostile agents', 120, installsPerNodeMax],
  ['5000 nodes of hostile agents', 5000, installsPerNodeMax],
  ['800 nodes of which all loads fail', 800, 3],
])('a status record of %s fits in a Kafka message, and counts omitted entries', (_what, count, installs) => {
  const all = live(
    count,
    heartbeat({ inFlight: 999_999, installs: Array.from({ length: installs }, () => install) }),
  );
  const report = buildNodesReport(all);
  const record = encode(statusOf({ kind: 'control-plane', halted: worst, ...report }));
  expect(record.length).toBeLessThanOrEqual(statusBytesMax);
  const reported = Object.values(report.nodes);
  expect(reported.length + (report.nodesOmitted ?? 0)).toBe(count);
  expect(reported.length).toBeGreaterThanOrEqual(Math.min(count, 800));
  for (const { installs: shown = [], installsOmitted = 0 } of reported)
    expect(shown.length + installsOmitted).toBe(installs);
});

test('a report that is still too large is sent without its nodes', () => {
  const nodes = Object.fromEntries(live(3000, heartbeat()));
  const value = encode(statusOf({ kind: 'control-plane', nodes, nodesOmitted: 5 }));
  expect(value.length).toBeLessThanOrEqual(statusBytesMax);
  expect(JSON.parse(value.toString())).toMatchObject({ nodesOmitted: 3005, applied: 10 });
});
