/**
 * Tests replicas on one topic, each with a file of its own. The registry of gateways must outlive the topic's records and
 * reach every replica.
 */
import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { statusBytesMax } from '../../schemas/records/status.ts';
import type { ControlLog } from '../../shared/log/core/control-log.ts';
import { folderOfTest } from '../../test/support/folders.ts';
import { publish, reportOf, takeMonotonicClock, testMac, topic } from '../../test/support/status-reports.ts';
import { until } from '../../test/support/until.ts';
import { FleetMemory } from './fleet-memory.ts';
import { GatewaysFile } from './gateways-file.ts';
import { StatusBoard } from './status-board.ts';

let dir: string;
let log: ControlLog;
const replicas: Replica[] = [];
beforeEach(async () => {
  dir = folderOfTest('memory');
  log = topic();
});
afterEach(async () => {
  for (const replica of replicas.splice(0)) await replica.stop();
  await log.close();
  vi.restoreAllMocks();
});

interface Replica {
  readonly board: StatusBoard;
  readonly memory: FleetMemory;
  readonly damages: readonly Error[];
  names(): string[];
  stop(): Promise<void>;
}

const sweepMs = 20;
const logger = { warn: () => undefined, info: () => undefined };

async function replica(name: string, on = log): Promise<Replica> {
  const damages: Error[] = [];
  const file = new GatewaysFile(join(dir, `${name}.db`), (error) => damages.push(error));
  const onMemory = (ended: readonly string[]): void => memory.republishEnded(ended);
  const board = new StatusBoard({ log: on, mac: testMac, logger, onMemory });
  const memory: FleetMemory = new FleetMemory({ name, board, file, log: on, mac: testMac, logger, sweepMs });
  board.start();
  memory.start();
  await board.readToEnd(5000);
  let isStopped = false;
  const started: Replica = {
    board,
    memory,
    damages,
    names: () => board.gateways().map(({ report }) => report.name),
    stop: async () => {
      if (isStopped) return;
      isStopped = true;
      await board.stop();
      memory.stop();
    },
  };
  replicas.push(started);
  return started;
}

/** Resolves once each replica has swept several times, so that everything that it would publish again is on the topic. */
async function sweeps(of: readonly Replica[]): Promise<void> {
  for (const { board } of of) {
    const sweeping = vi.spyOn(board, 'isComplete', 'get');
    await until(() => sweeping.mock.calls.length >= 3);
    sweeping.mockRestore();
  }
}

const named = (of: Replica) => expect.poll(() => of.names(), { timeout: 10_000 });

test('a silent gateway is known after a restart, even after the topic has expired its reports', async () => {
  const first = await replica('cp-1');
  await publish(log, reportOf());
  await named(first).toEqual(['edge-1']);
  await first.stop();
  const empty = topic();
  const again = await replica('cp-1', empty);
  expect(again.names()).toEqual(['edge-1']);
  await empty.close();
});

test('a new replica learns of a silent gateway from another one, and persists it', async () => {
  const first = await replica('cp-1');
  await publish(log, reportOf());
  await named(first).toEqual(['edge-1']);
  await first.stop();

  const clock = takeMonotonicClock();
  const empty = topic();
  await replica('cp-1', empty);
  const second = await replica('cp-2', empty);
  expect(second.names()).toEqual([]);
  clock.advanceSeconds(11);
  await named(second).toEqual(['edge-1']);
  expect(
    second.board.state([...second.board.gateways()][0]!, { log: 'log-1', seq: 10, foldVersion: 1 }),
  ).toBe('STALE');
  await second.stop();
  const another = topic();
  expect((await replica('cp-2', another)).names()).toEqual(['edge-1']);
  for (const each of replicas) await each.stop();
  await empty.close();
  await another.close();
});

test('one of the replicas republishes silent gateways each hour', async () => {
  const clock = takeMonotonicClock();
  const both = [await replica('cp-1'), await replica('cp-2')];
  await publish(log, reportOf());
  for (const each of both) await named(each).toEqual(['edge-1']);
  const before = await log.end();
  clock.advanceSeconds(600);
  await sweeps(both);
  expect(await log.end()).toBe(before);
  clock.advanceSeconds(3100);
  await expect.poll(() => log.end(), { timeout: 10_000 }).toBeGreaterThan(before);
  await sweeps(both);
  expect((await log.end()) - before).toBeLessThanOrEqual(2);
});

test('a forgotten gateway is removed from every replica, including one that was down at the time', async () => {
  const clock = takeMonotonicClock();
  const [first, second] = [await replica('cp-1'), await replica('cp-2')];
  await publish(log, reportOf({ n: 7 }));
  for (const each of [first, second]) await named(each).toEqual(['edge-1']);
  await second.stop();
  clock.advanceSeconds(11);
  expect(await first.memory.forget('edge-1')).toBe(1);
  expect(first.names()).toEqual([]);
  expect(await first.memory.forget('edge-1')).toBe(0);
  await first.stop();

  // A day later the topic no longer contains the gateway, but one replica still remembers it.
  const later = topic();
  const [again, behind] = [await replica('cp-1', later), await replica('cp-2', later)];
  expect([again.names(), behind.names()]).toEqual([[], ['edge-1']]);
  clock.advanceSeconds(11);
  await named(behind).toEqual([]);
  expect(again.names()).toEqual([]);
  for (const each of replicas) await each.stop();
  await later.close();
});

test('a gateway forgotten while it still reports is added again by its next report', async () => {
  const first = await replica('cp-1');
  const report = reportOf();
  await publish(log, report);
  await named(first).toEqual(['edge-1']);
  expect(await first.memory.forget('edge-1')).toBe(1);
  expect(first.names()).toEqual(['edge-1']);
  const clock = takeMonotonicClock();
  await publish(log, { ...report, n: 2 });
  await first.board.readToEnd(5000);
  clock.advanceSeconds(60);
  expect(first.names()).toEqual(['edge-1']);
  await first.stop();
  const empty = topic();
  expect((await replica('cp-1', empty)).names()).toEqual(['edge-1']);
  await replicas.at(-1)?.stop();
  await empty.close();
});

test('after a clean stop, no memory record adds the gateway again', async () => {
  const first = await replica('cp-1');
  const report = reportOf();
  await publish(log, report);
  await publish(log, { ...report, n: 2, stopped: true });
  await publish(log, { v: 1, kind: 'memory', name: 'cp-9', gateways: [report], forgotten: [] });
  await first.board.readToEnd(5000);
  expect(first.names()).toEqual([]);
});

test('thousands of gateways with long texts are republished in records of limited size', async () => {
  const first = await replica('cp-1');
  const halted = '\u{1f600}'.repeat(250);
  for (let n = 0; n < 1000; n++)
    first.board.rows.upsert(reportOf({ name: `edge-${n}`, incarnation: randomUUID(), halted }), 'file');
  const before = await log.end();
  const clock = takeMonotonicClock();
  clock.advanceSeconds(11);
  await expect.poll(() => log.end(), { timeout: 10_000 }).toBeGreaterThan(before + 4);
  const fresh = await replica('cp-2');
  expect(fresh.names()).toHaveLength(1000);
  const stop = new AbortController();
  for await (const { records, nextOffset } of log.tail({ from: 0, signal: stop.signal })) {
    for (const { value } of records) expect(value.length).toBeLessThanOrEqual(statusBytesMax);
    if (nextOffset >= (await log.end())) break;
  }
  stop.abort();
});

test('a damaged file is quarantined and reported', async () => {
  writeFileSync(join(dir, 'cp-1.db'), 'this is no database at all, whatever its name'.repeat(100));
  const first = await replica('cp-1');
  expect(first.damages).toHaveLength(1);
  await publish(log, reportOf());
  await named(first).toEqual(['edge-1']);
});
