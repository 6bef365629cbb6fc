/** Tests how status reports are published: their numbers, the last report, and records that the log refuses. */
import { beforeEach, expect, test } from 'vitest';
import { StatusBoard } from '../../control-plane/gateways/status-board.ts';
import type { TrafficReport } from '../../schemas/records/traffic.ts';
import { folderOfTest } from '../../test/support/folders.ts';
import { boardOn, reportOf, testMac, topic } from '../../test/support/status-reports.ts';
import type { ControlLog } from '../log/core/control-log.ts';
import { openEmbeddedLog } from '../log/embedded/embedded-log.ts';
import { type ReportBody, StatusPublisher } from './status-publisher.ts';

let dir: string;
beforeEach(() => {
  dir = folderOfTest('publisher');
});

const body = (): ReportBody => reportOf();
const lines: { fields: Record<string, unknown>; text: string }[] = [];
const logger = {
  error: (fields: object, text: string) => {
    lines.push({ fields: { ...fields }, text });
  },
};
beforeEach(() => {
  lines.length = 0;
});

test('a record that the log rejects is counted each time, and logged once a minute with the reason', async () => {
  const log = await openEmbeddedLog({ folder: dir, address: { topic: 'headgate.status' } });
  await log.close();
  const publisher = new StatusPublisher({ log, mac: testMac, logger });
  publisher.start({ report: body });
  await expect.poll(() => publisher.refused.totals.get('unavailable')).toBe(1);
  publisher.publish();
  await expect.poll(() => publisher.refused.totals.get('unavailable')).toBe(2);
  expect(publisher.isAcknowledged).toBe(false);
  expect(lines).toEqual([
    {
      fields: { causes: { unavailable: 1 }, reason: expect.stringContaining('is closed') },
      text: 'status records were not accepted by the log',
    },
  ]);
  await publisher.stop();
});

test('a fault in the report itself does not end the process, and is counted and logged', async () => {
  const log = topic();
  const publisher = new StatusPublisher({ log, mac: testMac, logger });
  publisher.start({
    report: () => {
      throw new TypeError('the database is not open');
    },
  });
  await expect.poll(() => publisher.refused.totals.get('fault')).toBe(1);
  expect(lines[0]?.fields).toMatchObject({ reason: 'the database is not open' });
  await publisher.stop();
  await log.close();
});

test('a process numbers its reports, and its `stopped` report is the last', async () => {
  const log = topic();
  const board = await boardOn(log);
  const publisher = new StatusPublisher({ log, mac: testMac, logger });
  publisher.start({ report: body });
  await publisher.acknowledged(5000);
  await board.readToEnd(5000);
  expect(board.gateways()).toMatchObject([{ report: { incarnation: publisher.incarnation, n: 1 } }]);
  await publisher.stop();
  await board.readToEnd(5000);
  expect(board.gateways()).toEqual([]);
  await board.stop();
  await log.close();
});

test('counts are settled according to the log’s acceptance, and the `stopped` report has the rest', async () => {
  const log = topic();
  const counted: unknown[] = [];
  const board = new StatusBoard({
    ...{ log, mac: testMac, logger: { warn: () => undefined } },
    onTraffic: (traffic) => counted.push(traffic),
  });
  board.start();
  const taken: TrafficReport = { v: 1, fromMs: 0, toMs: 1, inFlight: 0, rows: [] };
  const settled: boolean[] = [];
  let isAway = true;
  const publisher = new StatusPublisher({
    ...{ mac: testMac, logger },
    log: {
      append: (...record: [Buffer, Buffer]) => (isAway ? Promise.reject(new Error()) : log.append(...record)),
    } as ControlLog,
  });
  publisher.start({
    report: body,
    traffic: {
      take: (isLast) => ({ ...taken, inFlight: isLast ? 9 : 1 }),
      settle: (isOnLog) => settled.push(isOnLog),
    },
  });
  await expect.poll(() => settled).toEqual([false]);
  isAway = false;
  await publisher.stop();
  expect(settled).toEqual([false, true]);
  await board.readToEnd(5000);
  expect(counted).toEqual([{ ...taken, inFlight: 9 }]);
  await board.stop();
  await log.close();
});
