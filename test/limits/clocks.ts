/**
 * A fleet-wide limit while one gateway's wall clock is off by minutes, hours or a day, and after it was corrected. Used with
 * both logs. A second control plane's clock and an embedded log's time can be changed too.
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

  /** Makes an embedded log's time jump by this many ms. It is right again after a minute. */
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

  /** Starts a control plane whose clock can be changed. */
  async setPlane(): Promise<DevAdmin> {
    this.setOff(0, 'set-plane');
    return this.admin(await this.startPlane('set-plane', { env: this.#clockOf('set-plane') }));
  }

  /** Clock check of the second gateway, from its readiness endpoint. */
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
    // The monotonic clock stays right, as when a machine's wall clock is set.
    writeFileSync(
      setter,
      `import { readFileSync } from 'node:fs';
const now = Date.now;
Date.now = () => now() + Number(readFileSync(${JSON.stringify(this.#clockFile(name))}, 'utf8'));`,
    );
    return { NODE_OPTIONS: `--import=${setter}` };
  }
}

/** With a limit of 30: sends 10 requests, none of which is refused, then 60 more, of which the remaining 20 are admitted. */
export async function belowAndAbove(fleet: LimitedFleet): Promise<void> {
  // A gateway whose clock was set proves its snapshot first, and requests wait for that.
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
