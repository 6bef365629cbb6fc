/**
 * Every kind of process with all its listeners, plain and over TLS, on one embedded log: two control planes with a console,
 * two gateways with a stack port and a playground each, two simulated nodes and two agents.
 */
import { join } from 'node:path';
import type { ListenerName } from '../../shared/runtime/connections.ts';
import type { DevAdmin } from '../../tools/dev/dev-admin.ts';
import { model, operatorToken, type Plane, ProcessFleet, statusWith } from '../support/process-fleet.ts';
import type { Launch } from '../support/processes.ts';
import { type Endpoint, endpointOf } from '../support/raw-peer.ts';
import { until } from '../support/until.ts';

const fixture = (name: string): string => new URL(`../fixtures/tls/${name}`, import.meta.url).pathname;
const tlsFlags = ['--tls-cert', fixture('first.pem'), '--tls-key', fixture('first.key')];
const meter = new URL('../support/turn-meter.mjs', import.meta.url).href;
const stack = 'stk-amber-otter-9k2f';

interface Ready {
  readonly url?: string;
  readonly api?: string;
  readonly admin?: string;
  readonly console?: string;
  readonly play?: string;
  readonly metrics: string;
  readonly stacks?: readonly { readonly url: string }[];
}

export interface Listener {
  /** Name of the listener in the metrics of its process. */
  readonly kind: ListenerName;
  readonly endpoint: Endpoint;
  readonly process: Launch<Ready> & { readonly turns?: string };
  readonly health: Endpoint;
  /** Bearer token of a caller whose requests the listener accepts. */
  readonly bearer: string;
}

const places = ['', ' over TLS'] as const;
export const listenersOf = {
  'control plane': ['admin', 'console', 'metrics'],
  gateway: ['api', 'stack', 'play', 'metrics'],
  node: ['node', 'metrics'],
  agent: ['metrics'],
} as const satisfies Readonly<Record<string, readonly ListenerName[]>>;

export const listenerNames = places.flatMap((place) =>
  Object.entries(listenersOf).flatMap(([process, kinds]) =>
    kinds.map((kind) => `${process}${place}: ${kind}`),
  ),
);

export class ListenerFleet extends ProcessFleet {
  readonly listeners = new Map<string, Listener>();
  readonly #isMetered: boolean;

  /** With `isMetered`, processes run without TLS and with a small heap, and measure the turns of their event loops. */
  constructor({ isMetered = false } = {}) {
    super();
    this.#isMetered = isMetered;
  }

  override async start<Ready>(
    name: string,
    args: readonly string[],
    env: Readonly<Record<string, string | undefined>> = {},
  ): Promise<Launch<Ready> & { readonly turns?: string }> {
    if (!this.#isMetered) return super.start(name, args, env);
    const turns = join(this.dir, `${name}.turns`);
    const metered = { NODE_OPTIONS: `--import=${meter}`, HEADGATE_TEST_TURNS: turns };
    return Object.assign(await super.start<Ready>(name, args, { ...env, ...metered }), { turns });
  }

  async open(): Promise<void> {
    const tlsOf = this.#isMetered ? [[]] : [[], tlsFlags];
    const planes: Plane[] = [];
    for (const [at, tls] of tlsOf.entries())
      planes.push(await this.startPlane(`plane-${at}`, { flags: ['--console-port', '0', ...tls] }));
    const nodes = await Promise.all(
      tlsOf.map((tls, at) =>
        this.start<Ready>(`node-${at}`, ['sim-node', '--port', '0', '--models', model, ...tls]),
      ),
    );
    const [plane] = planes;
    if (plane === undefined) throw new Error('there is no control plane');
    const admin = this.admin(plane);
    const [first = '', second = first] = nodes.map(({ ready }) => ready.url ?? ready.metrics);
    await admin.apply(fleetOf(first, second));
    const key = (await admin.createKey('acme', 'k')).value;
    const gateways = await Promise.all(
      tlsOf.map((tls, at) =>
        this.serve<Ready>('gateway', `gw-${at}`, ['--stack-port', `${stack}=0`, '--play-port', '0', ...tls]),
      ),
    );
    const agents: Launch<Ready>[] = [];
    for (const [at, tls] of tlsOf.entries()) {
      const { value } = await admin.createNodeToken(`pool-${at}`);
      const of = { node: `pool-${at}`, token: value, engine: first, planes: [plane.ready.admin] };
      agents.push(await this.startAgent({ ...of, flags: tls }));
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

function urlOf(ready: Ready, kind: ListenerName): string {
  const url = {
    api: ready.api,
    stack: ready.stacks?.[0]?.url,
    admin: ready.admin,
    console: ready.console,
    play: ready.play,
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
    anonymous: { freeTurns: 1000, models: [model] },
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
