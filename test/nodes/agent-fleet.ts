/**
 * Real processes around node agents: control planes over one embedded log, gateways, simulated engines, agents. Asked from
 * outside only: what gateways list, what the admin API says, what stands in the log.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DevAdmin } from '../../dev/dev-admin.ts';
import type { LiveNodeResource } from '../../schemas/admin.ts';
import { type Started, startProcess } from '../support/processes.ts';

const operatorToken = 'agent-test-operator-token';

export interface Replica {
  readonly process: Started<{ admin: string; metrics: string }>;
  readonly admin: DevAdmin;
}

export class AgentFleet {
  readonly dir = mkdtempSync(join(tmpdir(), 'headgate-agents-'));
  readonly logUrl = `sqlite:${join(this.dir, 'log')}`;
  readonly #running: Started<unknown>[] = [];

  async controlPlane(name: string): Promise<Replica> {
    const args = ['control-plane', ...this.#common(name), '--port', '0'];
    const process = await this.start<{ admin: string; metrics: string }>(name, args);
    return { process, admin: new DevAdmin(process.ready.admin, operatorToken) };
  }

  gateway(name: string, controlPlane: string): Promise<Started<{ api: string; metrics: string }>> {
    const args = ['gateway', ...this.#common(name), '--port', '0', '--control-plane', controlPlane];
    return this.start(name, [...args, '--drain-delay', '0', '--drain-timeout', '5']);
  }

  simNode(name: string, ...more: string[]): Promise<Started<{ url: string }>> {
    return this.start(name, ['sim-node', '--port', '0', ...more]);
  }

  /** The agent of a node; its control planes are tried in this order of addresses. */
  agent(
    node: string,
    token: string,
    engine: string,
    controlPlanes: readonly string[],
    ...more: string[]
  ): Promise<Started<{ metrics: string }>> {
    const where = controlPlanes.flatMap((url) => ['--control-plane', url]);
    const args = ['node-agent', '--node', node, '--engine', engine, ...where, '--metrics-port', '0', ...more];
    return this.start(`agent-${node}`, args, { HEADGATE_NODE_TOKEN: token });
  }

  async start<Ready>(
    name: string,
    args: readonly string[],
    env: Readonly<Record<string, string>> = {},
  ): Promise<Started<Ready>> {
    const started = await startProcess<Ready>({
      ...{ dir: this.dir, name, args },
      env: { HEADGATE_OPERATOR_TOKEN: operatorToken, ...env },
    });
    this.#running.push(started);
    return started;
  }

  async end(): Promise<void> {
    for (const one of this.#running) one.child.kill('SIGCONT');
    await Promise.all(this.#running.map((one) => one.end('SIGKILL')));
    rmSync(this.dir, { recursive: true, force: true });
  }

  #common(name: string): string[] {
    return ['--log', this.logUrl, '--data', join(this.dir, name), '--name', name, '--metrics-port', '0'];
  }
}

export function nodeToken(admin: DevAdmin, node: string): Promise<{ id: string; value: string }> {
  return admin.createNodeToken(node);
}

export async function listedNodes(admin: DevAdmin): Promise<readonly LiveNodeResource[]> {
  return (await admin.call('GET', '/nodes')).items;
}

export async function listedNode(admin: DevAdmin, id: string): Promise<LiveNodeResource | undefined> {
  return (await listedNodes(admin)).find((node) => node.id === id);
}

export interface ListedEvent {
  readonly position: number;
  readonly type: string;
  readonly data: Readonly<Record<string, unknown>>;
}

export async function eventsFrom(admin: DevAdmin, from: number): Promise<readonly ListedEvent[]> {
  return (await admin.call('GET', `/events?from=${from}`)).items as ListedEvent[];
}

/** Does the gateway list the model as one that can be had? */
export async function lists(api: string, model: string): Promise<boolean> {
  const { data } = (await (await fetch(`${api}/models`)).json()) as { data: { id: string }[] };
  return data.some(({ id }) => id === model);
}
