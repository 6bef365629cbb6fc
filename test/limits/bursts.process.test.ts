/** Sends cold bursts below every limit to ten gateways on the embedded log, and in the nightly run also to two. */
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterAll, beforeAll, test } from 'vitest';
import { burstCases, nobodyRefused, WideFleet } from './bursts.ts';

let fleet: WideFleet;
beforeAll(async () => {
  fleet = new WideFleet({});
  await fleet.begin();
});
afterAll(() => fleet?.close());

/** Repeatedly blocks all appends to the gauges topic for a second, until stopped. */
function slowLog(): { stop(): void } {
  const db = new Database(join(fleet.logFolder, 'headgate.gauges.db'), { timeout: 5000 });
  let isHeld = false;
  const turn = (): void => {
    db.exec(isHeld ? 'COMMIT' : 'BEGIN IMMEDIATE');
    isHeld = !isHeld;
    timer = setTimeout(turn, isHeld ? 1000 : 20);
  };
  let timer = setTimeout(turn, 0);
  return {
    stop: () => {
      clearTimeout(timer);
      if (isHeld) db.exec('COMMIT');
      db.close();
    },
  };
}

test.each(burstCases(slowLog, 3))(
  'Limits 1, Limits 2: a cold burst far below the limits over $gateways gateways is never refused: $name',
  async ({ gateways, disturb }) => {
    await fleet.growTo(gateways);
    await nobodyRefused(fleet, disturb);
  },
);
