/**
 * A small fleet of real processes over an embedded log, in which a revocation is waited for by the CLI: control planes,
 * gateways that can be suspended, a simulated node. One folder a fleet; everything ends with `close`.
 */

import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DevAdmin } from '../../dev/dev-admin.ts';
import { type SimNode, startSimNode } from '../../dev/simulator/sim-node.ts';
import type { GatewayStatus } from '../../schemas/admin.ts';
import { type Started, startProcess } from './processes.ts';

const binary = new URL('../../dist/cli/headgate.js', import.meta.url).pathname;
const operatorToken = 'operator-token-of-this-fleet';
const free = ['--port', '0', '--metrics-port', '0'];

export type Plane = Started<{ readonly admin: string; readonly metrics: string }>;
export type GatewayProcess = Started<{ readonly api: string; readonly metrics: string }>;

export interface CliRun {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}
export class RevokingFleet {
  readonly dir = mkdtempSync(join(tmpdir(), 'headgate-revoking-'));
  readonly logFolder = join(this.dir, 'log');
  readonly env: Record<string, string> = {
    HEADGATE_LOG: `sqlite:${this.logFolder}`,
    HEADGATE_OPERATOR_TOKEN: operatorToken,
    HEADGATE_GATEWAY_TOKEN: 'gateway-token-of-this-fleet',
  };
  readonly #started: Started<unknown>[] = [];
  readonly #suspended = new Set<Started<unknown>>();
  #node: SimNode | undefined;

  async plane(folder: string, env: Record<string, string> = {}): Promise<Plane> {
    const args = ['control-plane', '--data', join(this.dir, folder), '--name', folder, ...free];
    return this.#keep(
      await startProcess({ dir: this.dir, name: folder, args, env: { ...this.env, ...env } }),
    );
  }

  /** `folder` is its data folder and, unless the flags name another, its name. */
  async gateway(folder: string, ...flags: string[]): Promise<GatewayProcess> {
    const named = flags.includes('--name') ? flags : ['--name', folder, ...flags];
    const args = ['gateway', '--data', join(this.dir, folder), '--drain-delay', '0', ...named, ...free];
    return this.#keep(await startProcess({ dir: this.dir, name: folder, args, env: this.env }));
  }

  admin(plane: Plane): DevAdmin {
    return new DevAdmin(plane.ready.admin, operatorToken);
  }

  /** One organisation on a tier without limits, one model on one simulated node. */
  async fill(plane: Plane): Promise<void> {
    this.#node ??= await startSimNode({ models: ['echo-small'], tokensPerSecond: 0 });
    await this.admin(plane).apply({
      version: 1,
      models: [{ id: 'echo-small', family: 'echo', weight: 1 }],
      tiers: [{ id: 'Platinum', requestsPerMinute: 6000, models: '*' }],
      pool: { models: ['echo-small'], nodes: [{ id: 'pool-1', url: this.#node.url, dialect: 'vllm' }] },
      organisations: [{ id: 'acme', name: 'Acme', tier: 'Platinum' }],
    } as unknown as Parameters<DevAdmin['apply']>[0]);
  }

  key(plane: Plane): Promise<{ readonly id: string; readonly value: string }> {
    return this.admin(plane).createKey('acme', 'to be revoked');
  }

  async listed(plane: Plane): Promise<readonly GatewayStatus[]> {
    return (await this.admin(plane).call('GET', '/gateways')).items;
  }

  cli(plane: Plane, ...args: string[]): Promise<CliRun> {
    const env = {
      ...process.env,
      ...this.env,
      HEADGATE_ADMIN: plane.ready.admin,
      HEADGATE_TOKEN: operatorToken,
      NO_COLOR: '1',
    };
    return new Promise((resolve) => {
      execFile(process.execPath, [binary, ...args], { cwd: this.dir, env }, (error, stdout, stderr) => {
        resolve({ code: error === null ? 0 : Number(error.code ?? -1), stdout, stderr });
      });
    });
  }

  revoke(plane: Plane, key: { readonly id: string }, waitSeconds: number): Promise<CliRun> {
    return this.cli(plane, 'key', 'revoke', key.id, '--yes', `--wait=${waitSeconds}s`);
  }

  suspend(process: Started<unknown>): void {
    process.child.kill('SIGSTOP');
    this.#suspended.add(process);
  }

  resume(process: Started<unknown>): void {
    process.child.kill('SIGCONT');
    this.#suspended.delete(process);
  }

  async close(): Promise<void> {
    for (const process of [...this.#suspended]) this.resume(process);
    for (const process of this.#started.reverse()) await process.end('SIGKILL');
    await this.#node?.close();
    rmSync(this.dir, { recursive: true, force: true });
  }

  #keep<Ready>(process: Started<Ready>): Started<Ready> {
    this.#started.push(process);
    return process;
  }
}

/** The status that a request with this key is answered with. */
export async function askWith(gateway: GatewayProcess, key: { readonly value: string }): Promise<number> {
  const response = await fetch(`${gateway.ready.api}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key.value}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'echo-small', messages: [{ role: 'user', content: 'hello' }] }),
  });
  await response.text();
  return response.status;
}
