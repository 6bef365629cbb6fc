import { afterEach, expect, test, vi } from 'vitest';
import { boardOn, publish, reportOf, takeMonotonicClock, topic } from '../../test/support/status-reports.ts';
import { ReplicaLiveness } from './replica-liveness.ts';

afterEach(() => vi.restoreAllMocks());

test('a replica is dead once it was silent while this one ran, not because this one did not run', async () => {
  const clock = takeMonotonicClock();
  const log = topic();
  const board = await boardOn(log);
  await publish(log, reportOf({ name: 'cp-2', kind: 'control-plane' }));
  await board.readToEnd(5000);
  const liveness = new ReplicaLiveness('cp-1', board);
  const owners = ['cp-1', 'cp-2', 'never-seen'];
  const dead = (): string[] => owners.filter(liveness.check());

  clock.advanceSeconds(20);
  expect(dead()).toEqual([]);
  for (let checks = 0; checks < 8; checks++) {
    clock.advanceSeconds(0.5);
    expect(dead()).toEqual([]);
  }
  for (let checks = 0; checks < 3; checks++) {
    clock.advanceSeconds(0.5);
    dead();
  }
  expect(dead()).toEqual(['cp-2', 'never-seen']);
  await publish(log, reportOf({ name: 'cp-2', kind: 'control-plane', n: 2 }));
  await board.readToEnd(5000);
  expect(dead()).toEqual(['never-seen']);
  await board.stop();
});
