/**
 * A small fleet of real processes on an embedded log, for tests in which the CLI waits for a revocation. Contains control
 * planes, a simulated node, and gateways that can be suspended. Each fleet has its own folder, and `close` ends all its
 * processes.
 */
import type { GatewayStatus } from '../../schemas/admin/admin.ts';
import type { CommandRun } from './commands.ts';
import {
  type GatewayProcess,
  model,
  organisation,
  type Plane,
  ProcessFleet,
  smallFleet,
  statusWith,
} from './process-fleet.ts';

/** Settings of a gateway that keeps serving while it cannot follow the log. */
export const serving = { flags: ['--when-stale', 'serve'] } as const;

export class RevokingFleet extends ProcessFleet {
  /** Adds one organisation on a tier without limits, and one model on one simulated node. */
  async fill(plane: Plane): Promise<void> {
    const node = await this.faultyNode('node', '--models', model, '--tokens-per-second', '0');
    await plane.admin.apply(smallFleet(node.ready.url));
  }

  key(plane: Plane): Promise<{ readonly id: string; readonly value: string }> {
    return plane.admin.createKey(organisation, 'to be revoked');
  }

  async listed(plane: Plane): Promise<readonly GatewayStatus[]> {
    return (await plane.admin.call('GET', '/gateways')).items;
  }

  run(plane: Plane, ...args: string[]): Promise<CommandRun> {
    return this.cli(args, { HEADGATE_ADMIN: plane.ready.admin });
  }

  revoke(plane: Plane, key: { readonly id: string }, waitSeconds: number): Promise<CommandRun> {
    return this.run(plane, 'key', 'revoke', key.id, '--yes', `--wait=${waitSeconds}s`);
  }
}

/** Returns the status of a request with this key. */
export function askWith({ ready }: GatewayProcess, key: { readonly value: string }): Promise<number> {
  return statusWith(ready.api, key.value);
}
