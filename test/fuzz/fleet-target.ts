/**
 * Base class of all targets that use a fleet. It watches the fleet's processes and checks that they release everything in the
 * end.
 */
import { Agent } from 'node:http';
import type { Note, RunningTarget } from './campaign.ts';
import type { Draw } from './draw.ts';
import type { FuzzFleet } from './fleet.ts';

export abstract class FleetTarget implements RunningTarget {
  abstract readonly workers: number;
  protected readonly fleet: FuzzFleet;
  /** Keeps the target's connections open between requests. */
  protected readonly agent = new Agent({ keepAlive: true });
  /** Faults that the target itself has found and that belong to no single case. */
  protected readonly found: string[] = [];

  constructor(fleet: FuzzFleet) {
    this.fleet = fleet;
  }

  abstract tryCase(draw: Draw, note: Note): Promise<string[]>;

  faults(): string[] {
    return [...this.fleet.faults(), ...this.found];
  }

  warmedUp(): Promise<void> {
    return this.fleet.warmedUp();
  }

  async settle(): Promise<void> {
    this.agent.destroy();
    await this.fleet.settle();
  }

  async close(): Promise<void> {
    this.agent.destroy();
    await this.fleet.close();
  }
}
