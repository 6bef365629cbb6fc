import { randomUUID } from 'node:crypto';
import { afterEach, expect, onTestFinished, test, vi } from 'vitest';
import { boardOn, publish, reportOf, takeMonotonicClock, topic } from '../../test/support/status-reports.ts';
import { ReplicaLiveness } from './replica-liveness.ts';

afterEach(() => vi.restoreAllMocks());

/** Opens a status board with reports of cp-1, which is this replica, and of cp-2. */
async function boardOfTwo() {
  const log = topic();
  const board = await boardOn(log);
  let n = 0;
  const report = async (...names: string[]) => {
    n++;
    for (const name of names)
      await publish(log, reportOf({ name, kind: 'control-plane', incarnation: incarnations.get(name)!, n }));
    await board.readToEnd(5000);
  };
  await report('cp-1', 'cp-2');
  onTestFinished(() => board.stop());
  const liveness = new ReplicaLiveness('cp-1', board);
  const dead = (): string[] => ['cp-1', 'cp-2', 'never-seen'].filter(liveness.check());
  return { report, dead };
}

const incarnations = new Map(['cp-1', 'cp-2'].map((name) => [name, randomUUID()]));

test('a replica counts as dead only after silence during which this replica ran and read its own reports', async () => {
  const clock = takeMonotonicClock();
  const { report, dead } = await boardOfTwo();

  clock.advanceSeconds(20);
  expect(dead()).toEqual([]);
  for (let checks = 0; checks < 8; checks++) {
    clock.advanceSeconds(0.5);
    await report('cp-1');
    expect(dead()).toEqual([]);
  }
  for (let checks = 0; checks < 3; checks++) {
    clock.advanceSeconds(0.5);
    await report('cp-1');
    dead();
  }
  expect(dead()).toEqual(['cp-2', 'never-seen']);
  await report('cp-2');
  expect(dead()).toEqual(['never-seen']);
});

test('a replica that cannot read back its own reports declares none dead, even just after it can again', async () => {
  const clock = takeMonotonicClock();
  const { report, dead } = await boardOfTwo();
  const wait = (checks: number) => {
    for (let check = 0; check < checks; check++) {
      clock.advanceSeconds(0.5);
      expect(dead()).toEqual([]);
    }
  };

  wait(120);
  await report('cp-1');
  wait(9);
  await report('cp-1');
  clock.advanceSeconds(1);
  await report('cp-1');
  expect(dead()).toEqual(['cp-2', 'never-seen']);
});
