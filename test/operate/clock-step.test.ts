/**
 * Tests a gateway whose wall clock is set forward. It must ask for a proof of freshness immediately, and requests must wait
 * for the proof.
 */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type TestClock, takeClock } from '../support/clock.ts';
import { startFleet, type TestFleet } from '../support/fleet.ts';
import { statusWith } from '../support/process-fleet.ts';

let clock: TestClock;
let fleet: TestFleet;
beforeEach(async () => {
  clock = takeClock();
  // The long interval keeps the next regular proof from arriving while the test's requests run.
  fleet = await startFleet({ gateway: { intervals: { proveMs: 600_000 } } });
});
afterEach(async () => {
  await fleet.close();
  clock.restore();
});

const ask = (key: string): Promise<number> => statusWith(fleet.gateways[0]?.api ?? '', key);

test('after each clock step, requests are served and a previously revoked key is refused', async () => {
  const kept = await fleet.key('acme');
  const revoked = await fleet.key('acme');
  await fleet.settle();
  expect(await ask(kept.value)).toBe(200);
  for (const stepMs of [46_000, 3_600_000, 24 * 3_600_000]) {
    clock.advanceMs(stepMs);
    expect(await Promise.all(Array.from({ length: 5 }, () => ask(kept.value)))).toEqual(Array(5).fill(200));
  }
  await fleet.admin.call('POST', `/keys/${revoked.id}/revoke`);
  clock.advanceMs(3_600_000);
  expect(await ask(revoked.value)).toBe(401);
});
