/** What every target over a fleet does alike: its processes are watched, and hold in the end what they held before. */
import { Agent } from 'node:http';
import type { Note, RunningTarget } from './campaign.ts';
import type { Draw } from './draw.ts';
import type { FuzzFleet } from './fleet.ts';

export abstract class FleetTarget implements RunningTarget {
  abstract readonly workers: number;
  protected readonly fleet: FuzzFleet;
  /** Keeps the connections of its requests. */
  protected readonly agent = new Agent({ keepAlive: true });
  /** Faults of no case that the target itself sees. */
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
