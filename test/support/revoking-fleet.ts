/**
 * A small fleet of real processes over an embedded log, in which a revocation is waited for by the CLI: control planes,
 * gateways that can be suspended, a simulated node. One folder a fleet; everything ends with `close`.
 */
import { type SimNode, startSimNode } from '../../dev/simulator/sim-node.ts';
import type { GatewayStatus } from '../../schemas/admin.ts';
import type { CommandRun } from './commands.ts';
import {
  type GatewayProcess,
  organisation,
  type Plane,
  ProcessFleet,
  smallFleet,
  statusWith,
} from './process-fleet.ts';
import type { Started } from './processes.ts';

export class RevokingFleet extends ProcessFleet {
  #node: SimNode | undefined;

  plane(folder: string, env: Record<string, string> = {}): Promise<Plane> {
    return this.serve('control-plane', folder, [], env);
  }

  /** `folder` is its data folder and, unless the flags name another, its name. */
  gateway(folder: string, ...flags: string[]): Promise<GatewayProcess> {
    return this.serve('gateway', folder, flags);
  }

  /** One organisation on a tier without limits, one model on one simulated node. */
  async fill(plane: Plane): Promise<void> {
    this.#node ??= await startSimNode({ models: ['echo-small'], tokensPerSecond: 0 });
    await this.admin(plane).apply(smallFleet(this.#node.url));
  }

  key(plane: Plane): Promise<{ readonly id: string; readonly value: string }> {
    return this.admin(plane).createKey(organisation, 'to be revoked');
  }

  async listed(plane: Plane): Promise<readonly GatewayStatus[]> {
    return (await this.admin(plane).call('GET', '/gateways')).items;
  }

  run(plane: Plane, ...args: string[]): Promise<CommandRun> {
    return this.cli(args, { HEADGATE_ADMIN: plane.ready.admin });
  }

  revoke(plane: Plane, key: { readonly id: string }, waitSeconds: number): Promise<CommandRun> {
    return this.run(plane, 'key', 'revoke', key.id, '--yes', `--wait=${waitSeconds}s`);
  }

  suspend(process: Started<unknown>): void {
    process.child.kill('SIGSTOP');
  }

  resume(process: Started<unknown>): void {
    process.child.kill('SIGCONT');
  }

  override async close(): Promise<void> {
    await super.close();
    await this.#node?.close();
  }
}

/** The status that a request with this key is answered with. */
export function askWith({ ready }: GatewayProcess, key: { readonly value: string }): Promise<number> {
  return statusWith(ready.api, key.value);
}
