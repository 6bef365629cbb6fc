/**
 * Runs all attacks briefly against processes with bounded heaps. Only checks what is certain even on a busy machine: no
 * process ends or exceeds its memory bound, all other callers are answered and none is refused, and a revocation is
 * confirmed. `npm run attack` measures how long callers wait.
 */
import { afterAll, afterEach, beforeEach, expect, test } from 'vitest';
import { runs } from '../support/budget.ts';
import { Observer, runAttack } from './attack.ts';
import { attacks } from './attacks.ts';
import { AttackFleet } from './fleet.ts';
import { HostileServer } from './hostile-server.ts';

const seconds = runs({ fast: 1, full: 1 }) / 2;
/**
 * Longest turn of an event loop, in ms of CPU time. A single turn may take 50 ms, but on a busy machine several turns may run
 * between two samples.
 */
const turnMsMax = 250;
const extraModels = 2000;

let fleet: AttackFleet | undefined;
let observer: Observer | undefined;
let hostile: HostileServer | undefined;
let isHarmed = false;

beforeEach(async () => {
  hostile ??= await HostileServer.start();
  if (isHarmed) await stop();
  isHarmed = true;
  fleet ??= await AttackFleet.start({ hostileUrl: hostile.url, extraModels });
  observer ??= new Observer(fleet);
}, 120_000);
afterEach(({ task }) => {
  isHarmed = task.result?.state === 'fail';
});
async function stop(): Promise<void> {
  await observer?.close();
  await fleet?.close();
  observer = undefined;
  fleet = undefined;
}
afterAll(async () => {
  await stop();
  await hostile?.close();
});

const short = attacks.filter(({ isLong }) => !isLong);

test.each(short.map((attack) => [attack.at, attack.name, attack] as const))(
  '%s: %s: other callers are served, and no process ends or outgrows its bound',
  async (_at, _name, attack) => {
    if (!fleet || !observer || !hostile) throw new Error('not started');
    const { faults, turnsMs } = await runAttack(attack, { fleet, hostile }, observer, seconds);
    expect(faults).toEqual([]);
    for (const [process, ms] of Object.entries(turnsMs))
      expect(ms, `a turn of ${process}`).toBeLessThan(turnMsMax);
  },
);
