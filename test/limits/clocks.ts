/**
 * Checks a fleet-wide limit while one gateway's wall clock is off by minutes, hours or a day, and after the clock has been
 * corrected. The tests for Kafka and for the embedded log both use this file. They can also set a second control plane's
 * clock and the embedded log's time.
 */
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { openDatabase } from '../../shared/runtime/sqlite.ts';
import type { DevAdmin } from '../../tools/dev/dev-admin.ts';
import { LimitedFleet } from './fleet-limits.ts';

const minuteLimit = 30;
const hourMs = 3_600_000;
export const offsetsMs = [-600_000, 600_000, -hourMs, hourMs, -24 * hourMs, 24 * hourMs];

export class ClockFleet extends LimitedFleet {
  /** Sets the clock of the second gateway or the second control plane off by this many ms. */
  setOff(offMs: number, name: 'set' | 'set-plane' = 'set'): void {
    writeFileSync(this.#clockFile(name), String(offMs));
  }

  /** Makes the embedded log's time jump by this many ms. The log corrects its time after a minute. */
  leapLog(leapMs: number): void {
    for (const name of readdirSync(this.logFolder).filter((each) => each.endsWith('.db'))) {
      const db = openDatabase(join(this.logFolder, name), { durability: 'normal' });
      db.prepare('UPDATE log_time SET at_ms = at_ms + ?, off_since_ms = NULL').run(leapMs);
      db.close();
    }
  }

  #clockFile(name: string): string {
    return join(this.dir, `${name}-off-ms`);
  }

  async setPlane(): Promise<DevAdmin> {
    this.setOff(0, 'set-plane');
    return this.admin(await this.startPlane('set-plane', { env: this.#clockOf('set-plane') }));
  }

  /** Returns the second gateway's clock check, as its readiness endpoint reports it. */
  async clockSays(): Promise<string | undefined> {
    const metrics = this.gateways[1]?.ready.metrics;
    const response = await fetch(new URL('/readyz?verbose', metrics));
    return /^\[\+\]clock (.*)$/m.exec(await response.text())?.[1];
  }

  async beginBoth(): Promise<void> {
    this.setOff(0);
    await this.begin(1);
    this.gateways.push(await this.gateway('set', [], this.#clockOf('set')));
  }

  #clockOf(name: string): { NODE_OPTIONS: string } {
    const setter = join(this.dir, `${name}-clock.mjs`);
    // Changes only `Date.now`, because setting a machine's wall clock does not affect the monotonic clock either.
    writeFileSync(
      setter,
      `import { readFileSync } from 'node:fs';
const now = Date.now;
Date.now = () => now() + Number(readFileSync(${JSON.stringify(this.#clockFile(name))}, 'utf8'));`,
    );
    return { NODE_OPTIONS: `--import=${setter}` };
  }
}

/** Checks a limit of 30: all of the first 10 requests are admitted, and exactly 20 of the 60 that follow. */
export async function belowAndAbove(fleet: LimitedFleet): Promise<void> {
  // After its clock was set, a gateway lets requests wait until it has proved that its snapshot is fresh.
  for (const gateway of fleet.gateways) {
    const response = await fleet.ask(gateway, 'slots-1');
    expect([response.status, await response.text()]).toEqual([200, expect.any(String)]);
  }
  const organisation = await fleet.freshMinute(10_000, { undisturbed: false });
  let admitted = 0;
  const exempt = await fleet.exempt(minuteLimit, async () => {
    const below = await fleet.burst(fleet.gateways, organisation, 10);
    expect(below).toMatchObject({ admitted: 10, limited: 0, other: [] });
    const above = await fleet.burst(fleet.gateways, organisation, 2 * minuteLimit);
    expect(above.other).toEqual([]);
    admitted = below.admitted + above.admitted;
  });
  expect(admitted).toBeGreaterThanOrEqual(minuteLimit);
  expect(admitted).toBeLessThanOrEqual(minuteLimit + exempt);
}
