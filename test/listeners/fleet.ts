/**
 * Every process with every listener it can have, plain and over TLS, over one embedded log: two control planes, two
 * gateways with a stack's port each, two simulated nodes, two agents.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DevAdmin } from '../../dev/dev-admin.ts';
import { type Started, startProcess } from '../support/processes.ts';
import { type Endpoint, endpointOf } from '../support/raw-peer.ts';

const fixture = (name: string): string => new URL(`../fixtures/tls/${name}`, import.meta.url).pathname;
const tlsFlags = ['--tls-cert', fixture('first.pem'), '--tls-key', fixture('first.key')];
const operatorToken = 'listener-test-operator-token';
const stack = 'stk-amber-otter-9k2f';

interface Ready {
  readonly url?: string;
  readonly api?: string;
  readonly admin?: string;
  readonly metrics: string;
  readonly stacks?: readonly { readonly url: string }[];
}

/** In the metrics of its process. */
export type ListenerKind = 'api' | 'stack' | 'admin' | 'node' | 'metrics';

export interface Listener {
  readonly kind: ListenerKind;
  readonly endpoint: Endpoint;
  readonly process: Started<Ready>;
  readonly health: Endpoint;
  /** What an accepted request carries. */
  readonly bearer: string;
}

const places = ['', ' over TLS'] as const;
const listenersOf = {
  'control plane': ['admin', 'metrics'],
  gateway: ['api', 'stack', 'metrics'],
  node: ['node', 'metrics'],
  agent: ['metrics'],
} as const;

export const listenerNames = places.flatMap((place) =>
  Object.entries(listenersOf).flatMap(([process, kinds]) =>
    kinds.map((kind) => `${process}${place}: ${kind}`),
  ),
);

export class ListenerFleet {
  readonly dir = mkdtempSync(join(tmpdir(), 'headgate-listeners-'));
  readonly listeners = new Map<string, Listener>();
  readonly #running: Started<unknown>[] = [];

  async open(binary?: string): Promise<void> {
    const log = ['--log', `sqlite:${join(this.dir, 'log')}`];
    const start = async (name: string, args: readonly string[], env = {}): Promise<Started<Ready>> => {
      const started = await startProcess<Ready>({
        ...{ dir: this.dir, name, args, ...(binary !== undefined && { binary }) },
        env: { HEADGATE_OPERATOR_TOKEN: operatorToken, ...env },
      });
      this.#running.push(started);
      return started;
    };
    const free = ['--port', '0', '--metrics-port', '0'];
    const own = (name: string): string[] => ['--data', join(this.dir, name), '--name', name, ...log, ...free];
    const tlsOf = [[], tlsFlags];
    const planes = [];
    for (const [at, tls] of tlsOf.entries())
      planes.push(await start(`plane-${at}`, ['control-plane', ...own(`plane-${at}`), ...tls]));
    const nodes = await Promise.all(
      tlsOf.map((tls, at) => start(`node-${at}`, ['sim-node', '--port', '0', '--models', 'm', ...tls])),
    );
    const plane = planes[0]?.ready.admin ?? '';
    const admin = new DevAdmin(plane, operatorToken);
    const [first = '', second = ''] = nodes.map(({ ready }) => ready.url ?? ready.metrics);
    await admin.apply(fleetOf(first, second));
    const key = (await admin.createKey('acme', 'k')).value;
    const gateways = await Promise.all(
      tlsOf.map((tls, at) =>
        start(`gw-${at}`, ['gateway', ...own(`gw-${at}`), '--stack-port', `${stack}=0`, ...tls]),
      ),
    );
    const agents = [];
    for (const [at, tls] of tlsOf.entries()) {
      const { value } = await admin.createNodeToken(`pool-${at}`);
      const where = ['--control-plane', plane, '--engine', first, '--metrics-port', '0'];
      const args = ['node-agent', '--node', `pool-${at}`, ...where, ...tls];
      agents.push(await start(`agent-${at}`, args, { HEADGATE_NODE_TOKEN: value }));
    }
    const groups = { 'control plane': planes, gateway: gateways, node: nodes, agent: agents };
    for (const [process, kinds] of Object.entries(listenersOf))
      for (const [at, started] of (groups[process as keyof typeof groups] ?? []).entries())
        for (const kind of kinds)
          this.listeners.set(`${process}${places[at]}: ${kind}`, {
            ...{ kind, process: started, bearer: kind === 'admin' ? operatorToken : key },
            endpoint: endpointOf(urlOf(started.ready, kind)),
            health: endpointOf(started.ready.metrics),
          });
    await this.#serves(key);
  }

  listener(name: string): Listener {
    const listener = this.listeners.get(name);
    if (listener === undefined) throw new Error(`no listener ${name}`);
    return listener;
  }

  async close(): Promise<void> {
    await Promise.all(this.#running.map((one) => one.end('SIGKILL')));
    rmSync(this.dir, { recursive: true, force: true });
  }

  /** Waits until the plain gateway answers a completion. */
  async #serves(key: string): Promise<void> {
    const api = this.listener('gateway: stack').process.ready.api;
    const until = performance.now() + 30_000;
    for (;;) {
      const { status } = await fetch(`${api}/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hello' }] }),
      });
      if (status === 200) return;
      if (performance.now() > until) throw new Error(`the fleet does not serve: ${status}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

function urlOf(ready: Ready, kind: ListenerKind): string {
  const url = {
    api: ready.api,
    stack: ready.stacks?.[0]?.url,
    admin: ready.admin,
    node: ready.url ?? ready.metrics,
    metrics: ready.metrics,
  }[kind];
  if (url === undefined) throw new Error(`no ${kind} in the ready file`);
  return url;
}

function fleetOf(first: string, second: string): Parameters<DevAdmin['apply']>[0] {
  const node = (id: string, url: string, agent = true) => ({ id, url, dialect: 'vllm', agent }) as const;
  return {
    version: 1,
    models: [{ id: 'm', family: 'echo', weight: 1 }],
    tiers: [{ id: 'Wide', models: '*' }],
    pool: {
      models: ['m'],
      nodes: [node('pool-0', first), node('pool-1', first), node('pool-2', second, false)],
    },
    organisations: [
      {
        ...{ id: 'acme', name: 'Acme', tier: 'Wide' },
        stacks: [{ id: stack, surface: 'openai', models: ['m'], nodes: [node('own-0', first, false)] }],
      },
    ],
  };
}
