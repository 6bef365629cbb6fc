/**
 * Every process with every listener it can have, plain and over TLS, over one embedded log: two control planes, two
 * gateways with a stack's port each, two simulated nodes, two agents.
 */
import type { DevAdmin } from '../../dev/dev-admin.ts';
import { model, operatorToken, type Plane, ProcessFleet, statusWith } from '../support/process-fleet.ts';
import type { Started } from '../support/processes.ts';
import { type Endpoint, endpointOf } from '../support/raw-peer.ts';
import { until } from '../support/until.ts';

const fixture = (name: string): string => new URL(`../fixtures/tls/${name}`, import.meta.url).pathname;
const tlsFlags = ['--tls-cert', fixture('first.pem'), '--tls-key', fixture('first.key')];
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

export class ListenerFleet extends ProcessFleet {
  readonly listeners = new Map<string, Listener>();

  async open(): Promise<void> {
    const tlsOf = [[], tlsFlags];
    const planes: Plane[] = [];
    for (const [at, tls] of tlsOf.entries())
      planes.push(await this.serve<Plane['ready']>('control-plane', `plane-${at}`, tls));
    const nodes = await Promise.all(
      tlsOf.map((tls, at) =>
        this.start<Ready>(`node-${at}`, ['sim-node', '--port', '0', '--models', model, ...tls]),
      ),
    );
    const [plane] = planes;
    if (plane === undefined) throw new Error('there is no control plane');
    const admin = this.admin(plane);
    const [first = '', second = ''] = nodes.map(({ ready }) => ready.url ?? ready.metrics);
    await admin.apply(fleetOf(first, second));
    const key = (await admin.createKey('acme', 'k')).value;
    const gateways = await Promise.all(
      tlsOf.map((tls, at) =>
        this.serve<Ready>('gateway', `gw-${at}`, ['--stack-port', `${stack}=0`, ...tls]),
      ),
    );
    const agents: Started<Ready>[] = [];
    for (const [at, tls] of tlsOf.entries()) {
      const { value } = await admin.createNodeToken(`pool-${at}`);
      const where = ['--control-plane', plane.ready.admin, '--engine', first, '--metrics-port', '0'];
      const args = ['node-agent', '--node', `pool-${at}`, ...where, ...tls];
      agents.push(await this.start<Ready>(`agent-${at}`, args, { HEADGATE_NODE_TOKEN: value }));
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

  /** Waits until the plain gateway answers a completion. */
  async #serves(key: string): Promise<void> {
    const { api = '' } = this.listener('gateway: stack').process.ready;
    await until(async () => (await statusWith(api, key)) === 200, 30_000);
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
    models: [{ id: model, family: 'echo', weight: 1 }],
    tiers: [{ id: 'Wide', models: '*' }],
    pool: {
      models: [model],
      nodes: [node('pool-0', first), node('pool-1', first), node('pool-2', second, false)],
    },
    organisations: [
      {
        ...{ id: 'acme', name: 'Acme', tier: 'Wide' },
        stacks: [{ id: stack, surface: 'openai', models: [model], nodes: [node('own-0', first, false)] }],
      },
    ],
  };
}
