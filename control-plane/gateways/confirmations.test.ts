/**
 * Tests that all waiting confirmations share one request for the end of the reports topic, and that clients that have left
 * cause none.
 */
import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { ControlLog } from '../../shared/log/core/control-log.ts';
import { boardOn, log1, publish, reportOf, topic } from '../../test/support/status-reports.ts';
import { until } from '../../test/support/until.ts';
import { Confirming } from './confirmations.ts';
import type { StatusBoard } from './status-board.ts';

let log: ControlLog;
let board: StatusBoard;
let ends = 0;
const incarnation = randomUUID();
beforeEach(async () => {
  log = topic();
  const end = log.end.bind(log);
  log.end = () => {
    ends++;
    return end();
  };
  board = await boardOn(log);
  await publish(log, reportOf({ incarnation, applied: 1, stalePolicy: 'serve' }));
});
afterEach(async () => {
  await board.stop();
  await log.close();
});

const here = (): AbortSignal => new AbortController().signal;
const confirming = (): Confirming => new Confirming({ board, snapshot: { log: log1 } });

test('any number of waits asks for the log’s end as often as one', async () => {
  const waits = confirming();
  const before = ends;
  const answers = await Promise.all(Array.from({ length: 200 }, () => waits.wait(99, 1, here())));
  expect(answers.map(({ complete }) => complete)).toEqual(Array(200).fill(false));
  expect(ends - before).toBeLessThan(20);
});

test('a wait that begins while reports are being read is answered by a later read', async () => {
  const waits = confirming();
  const first = waits.wait(99, 5, here());
  await publish(log, reportOf({ name: 'edge-2', applied: 99, stalePolicy: 'serve' }));
  const { gateways } = await waits.wait(99, 0, here());
  expect(gateways.map(({ name, confirmed }) => [name, confirmed])).toEqual([
    ['edge-1', false],
    ['edge-2', true],
  ]);
  await publish(log, reportOf({ incarnation, n: 2, applied: 99, stalePolicy: 'serve' }));
  expect((await first).complete).toBe(true);
});

test('a wait ends when its client disconnects, and asks for nothing more', async () => {
  const client = new AbortController();
  const wait = confirming().wait(99, 75, client.signal);
  const before = ends;
  await until(() => ends > before);
  client.abort(new Error('gone'));
  await expect(wait).rejects.toThrow('gone');
  const after = ends;
  await board.changed(1500);
  expect(ends).toBe(after);
});
