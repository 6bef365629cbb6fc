/**
 * Real processes of the built service over one log, in a folder of their own: control planes, gateways, simulated nodes and
 * agents on free ports. What several tests need of a fleet is here; a test with needs of its own extends it.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DevAdmin } from '../../dev/dev-admin.ts';
import { type Started, startProcess } from './processes.ts';

const operatorToken = 'process-fleet-operator-token';

export type Plane = Started<{ readonly admin: string; readonly metrics: string; readonly pid: number }>;
export type GatewayProcess = Started<{
  readonly api: string;
  readonly metrics: string;
  readonly pid: number;
}>;
export type NodeProcess = Started<{ readonly url: string; readonly metrics: string }>;
type Env = Readonly<Record<string, string>>;

export interface ProcessFleetOptions {
  /** An embedded log in the fleet's folder where none is given. */
  readonly logUrl?: string;
  readonly env?: Env;
  readonly timeoutMs?: number;
  /** Another build's command. */
  readonly binary?: string | undefined;
}

export class ProcessFleet {
  readonly dir = mkdtempSync(join(tmpdir(), 'headgate-fleet-'));
  readonly logFolder = join(this.dir, 'log');
  readonly logUrl: string;
  readonly env: Env;
  readonly #options: ProcessFleetOptions;
  readonly #running: Started<unknown>[] = [];

  constructor(options: ProcessFleetOptions = {}) {
    this.#options = options;
    this.logUrl = options.logUrl ?? `sqlite:${this.logFolder}`;
    this.env = { HEADGATE_OPERATOR_TOKEN: operatorToken, ...options.env };
  }

  /** The same name means the same data folder. Flags that are given again replace those of the fleet. */
  plane(name: string, more: readonly string[] = [], env: Env = {}): Promise<Plane> {
    return this.start(name, ['control-plane', ...this.#common(name), ...more], env);
  }

  gateway(name: string, more: readonly string[] = [], env: Env = {}): Promise<GatewayProcess> {
    const drain = ['--drain-delay', '0', '--drain-timeout', '5'];
    return this.start(name, ['gateway', ...this.#common(name), ...drain, ...more], env);
  }

  simNode(name: string, more: readonly string[] = []): Promise<NodeProcess> {
    return this.start(name, ['sim-node', '--port', '0', ...more]);
  }

  /** Its control planes are tried in this order of addresses. */
  agent(
    node: string,
    token: string,
    engine: string,
    planes: readonly string[],
    more: readonly string[] = [],
  ): Promise<Started<{ readonly metrics: string }>> {
    const where = planes.flatMap((url) => ['--control-plane', url]);
    const args = ['node-agent', '--node', node, '--engine', engine, ...where, '--metrics-port', '0', ...more];
    return this.start(`agent-${node}`, args, { HEADGATE_NODE_TOKEN: token });
  }

  admin({ ready }: Plane): DevAdmin {
    return new DevAdmin(ready.admin, operatorToken);
  }

  async start<Ready>(name: string, args: readonly string[], env: Env = {}): Promise<Started<Ready>> {
    const { timeoutMs, binary } = this.#options;
    const started = await startProcess<Ready>({
      dir: this.dir,
      name,
      args,
      env: { ...this.env, ...env },
      ...(timeoutMs !== undefined && { timeoutMs }),
      ...(binary !== undefined && { binary }),
    });
    this.#running.push(started);
    return started;
  }

  /** Ends all processes, those that are suspended too, and removes their folder. */
  async close(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    for (const { child } of this.#running) child.kill('SIGCONT');
    await Promise.all(this.#running.map((one) => one.end(signal)));
    rmSync(this.dir, { recursive: true, force: true });
  }

  #common(name: string): string[] {
    const data = ['--data', join(this.dir, name), '--name', name];
    return ['--log', this.logUrl, '--port', '0', '--metrics-port', '0', ...data];
  }
}

export const organisation = 'acme';
const model = 'echo-small';

/** One organisation on a tier without limits, and the pool's one node with one model. */
export function smallFleet(nodeUrl: string): Parameters<DevAdmin['apply']>[0] {
  return {
    version: 1,
    models: [{ id: model, family: 'echo', weight: 1 }],
    tiers: [{ id: 'Wide', models: '*' }],
    pool: { models: [model], nodes: [{ id: 'pool-1', url: nodeUrl, dialect: 'vllm' }] },
    organisations: [{ id: organisation, name: 'Acme', tier: 'Wide' }],
  };
}

/** The status of one completion; without a node any other status than 401 means that the key was accepted. */
export async function complete({ ready }: GatewayProcess, key: { readonly value: string }): Promise<number> {
  const response = await fetch(`${ready.api}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key.value}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, messages: [{ role: 'user', content: 'hello' }] }),
    signal: AbortSignal.timeout(30_000),
  });
  await response.text();
  return response.status;
}
