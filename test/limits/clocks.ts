/**
 * A limit of the whole fleet while the wall clock of one gateway is set by minutes, hours and a day, and after it was set back. The
 * same on both logs.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { LimitedFleet } from './fleet-limits.ts';

const minuteLimit = 30;
const hourMs = 3_600_000;
export const offsetsMs = [-600_000, 600_000, -hourMs, hourMs, -24 * hourMs, 24 * hourMs];

export class ClockFleet extends LimitedFleet {
  /** Sets the clock of the second gateway off by so much, ms. */
  setOff(offMs: number): void {
    writeFileSync(this.#clockFile, String(offMs));
  }

  get #clockFile(): string {
    return join(this.dir, 'clock-off-ms');
  }

  /** What the second gateway says of its clock. */
  async clockSays(): Promise<string | undefined> {
    const metrics = this.gateways[1]?.ready.metrics;
    const response = await fetch(new URL('/readyz?verbose', metrics));
    return /^\[\+\]clock (.*)$/m.exec(await response.text())?.[1];
  }

  async beginBoth(): Promise<void> {
    this.setOff(0);
    const setter = join(this.dir, 'set-clock.mjs');
    // The monotonic clock stays true, as where a machine sets its wall clock.
    writeFileSync(
      setter,
      `import { readFileSync } from 'node:fs';
const now = Date.now;
Date.now = () => now() + Number(readFileSync(${JSON.stringify(this.#clockFile)}, 'utf8'));`,
    );
    await this.begin(1);
    this.gateways.push(await this.gateway('set', [], { NODE_OPTIONS: `--import=${setter}` }));
  }
}

/** Of a limit of 30: 10 requests, of which none is refused, and 60 more, of which the rest of it is admitted. */
export async function belowAndAbove(fleet: LimitedFleet): Promise<void> {
  // A gateway whose clock was set proves its snapshot at once, and requests wait for that.
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
