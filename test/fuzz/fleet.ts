/** A real fleet for fuzzing, on an embedded log in a folder of its own. Each process runs separately and is watched. */
import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Fleet } from '../../schemas/events/fleet.ts';
import type { DevAdmin } from '../../tools/dev/dev-admin.ts';
import { gatewayToken, metric, opened, operatorToken, ProcessFleet } from '../support/process-fleet.ts';
import { until } from '../support/until.ts';
import { inspectable } from './inspect.ts';
import { WatchedProcess } from './watched.ts';

/** Secret text in prompts and in the answers of hostile nodes. No log and no error message may contain it. */
export const canary = 'canary-3f9d2b71c0';
export const models = ['echo-small', 'echo-large', 'echo-embed'] as const;
export const rerankModel = 'echo-rerank';
export const stacks = { openai: 'stk-amber-otter-9k2f', anthropic: 'stk-quiet-heron-4m7q' } as const;
export const stackDomain = 'stacks.test';

export interface PlaneReady {
  readonly admin: string;
  readonly console: string;
  readonly metrics: string;
}
export interface GatewayReady {
  readonly api: string;
  readonly play: string;
  readonly metrics: string;
  readonly stacks: readonly { readonly stack: string; readonly url: string }[];
}
export interface NodeReady {
  readonly metrics: string;
}
/** Addresses that a simulated node prints once it is ready. */
export interface EngineReady extends NodeReady {
  readonly api: string;
}

export interface FleetOptions {
  /** If true, also starts a second gateway, which uses TLS. */
  readonly tls?: boolean;
  /** If true, also starts an agent for the simulated node. */
  readonly agent?: boolean;
  /** URL of a node to use instead of the simulated node. */
  readonly engine?: string;
  /** URL of a node to use instead of the simulated reranking node. */
  readonly reranker?: string;
  /** Names of additional pool nodes, whose state agents report. */
  readonly agentNodes?: readonly string[];
  readonly gatewayArgs?: readonly string[];
}

export class FuzzFleet extends ProcessFleet {
  readonly secrets = new Set([operatorToken, gatewayToken, canary]);
  readonly processes: WatchedProcess[] = [];
  readonly #options: FleetOptions;
  #plane: WatchedProcess<PlaneReady> | undefined;
  #gateway: WatchedProcess<GatewayReady> | undefined;
  #keyValue = '';

  constructor(options: FleetOptions) {
    super({ env: { HEADGATE_LOG_LEVEL: 'debug', ...inspectable }, timeoutMs: 60_000 });
    this.#options = options;
  }

  static async start(options: FleetOptions = {}): Promise<FuzzFleet> {
    const fleet = new FuzzFleet(options);
    return opened(fleet, () => fleet.#start());
  }

  get plane(): WatchedProcess<PlaneReady> {
    return given(this.#plane);
  }
  get gateway(): WatchedProcess<GatewayReady> {
    return given(this.#gateway);
  }
  /** API key of an organisation without limits. */
  get key(): string {
    return this.#keyValue;
  }
  get operator(): DevAdmin {
    return this.admin(this.plane.started);
  }

  faults(): string[] {
    return this.processes.flatMap((process) => process.faults);
  }
  async warmedUp(): Promise<void> {
    await Promise.all(this.processes.map((process) => process.noteLevel()));
  }
  async settle(): Promise<void> {
    await Promise.all(this.processes.map((process) => process.settle()));
  }
  override async close(): Promise<void> {
    await Promise.all(this.processes.map((process) => process.end()));
    await super.close();
  }

  gauge(name: string): Promise<number> {
    return metric(this.gateway.started, name);
  }

  async watchPlane(name: string): Promise<WatchedProcess<PlaneReady>> {
    return this.#watch<PlaneReady>(
      name,
      ['control-plane', ...this.#common(name), '--console-port', '0'],
      '/livez',
    );
  }

  async watchGateway(name: string, more: readonly string[] = []): Promise<WatchedProcess<GatewayReady>> {
    const args = [
      ...['gateway', ...this.#common(name), '--stack-domain', stackDomain, '--drain-delay', '0'],
      ...['--play-port', '0'],
      ...['--control-plane', this.plane.started.ready.admin],
      ...Object.values(stacks).flatMap((stack) => ['--stack-port', `${stack}=0`]),
      ...(this.#options.gatewayArgs ?? []),
      ...more,
    ];
    return this.#watch<GatewayReady>(name, args, '/livez');
  }

  async #start(): Promise<void> {
    const { engine, reranker, agent, tls, agentNodes = [] } = this.#options;
    this.#plane = await this.watchPlane('control-plane');
    const simArgs = ['--port', '0', '--models', models.join(','), '--tokens-per-second', '0'];
    const node = engine ?? (await this.#startEngine('sim-node', simArgs));
    const rerankArgs = ['--port', '0', '--models', rerankModel, '--rerank'];
    const second = reranker ?? (await this.#startEngine('sim-reranker', rerankArgs));
    await this.operator.apply(fleetWith(node, second, agentNodes, agent === true));
    const { value } = await this.operator.createKey('acme', 'fuzz');
    this.#keyValue = value;
    this.secrets.add(value);
    this.#gateway = await this.watchGateway('gateway');
    if (tls) {
      const file = (name: string): string => join(this.dir, name);
      for (const name of ['first.pem', 'first.key'])
        copyFileSync(join('test/fixtures/tls', name), file(name));
      await this.watchGateway('gateway-tls', [
        '--tls-cert',
        file('first.pem'),
        '--tls-key',
        file('first.key'),
      ]);
    }
    if (agent) await this.#startAgent(node);
    await this.#untilUp();
  }

  async #startEngine(name: string, args: readonly string[]): Promise<string> {
    const started = await this.#watch<EngineReady>(name, ['sim-node', ...args], '/health');
    return engineUrl(started.started.ready);
  }

  async #startAgent(engine: string): Promise<void> {
    const { value } = await this.operator.createNodeToken('agent-1');
    this.secrets.add(value);
    const args = ['node-agent', '--control-plane', this.plane.started.ready.admin, '--node', 'agent-1'];
    const more = ['--engine', engine, '--metrics-port', '0'];
    await this.#watch<NodeReady>('node-agent', [...args, ...more], '/livez', { HEADGATE_NODE_TOKEN: value });
  }

  async #untilUp(): Promise<void> {
    const wanted = new Set(['pool-1', 'pool-rerank', ...(this.#options.agent ? ['agent-1'] : [])]);
    await until(async () => {
      const nodes = await this.operator.nodes();
      return nodes.filter(({ id, up }) => up && wanted.has(id)).length === wanted.size;
    }, 30_000);
    await this.operator.confirmed(await this.operator.position(), 20);
  }

  async #watch<Ready extends NodeReady>(
    name: string,
    args: readonly string[],
    health: string,
    env: Readonly<Record<string, string>> = {},
  ): Promise<WatchedProcess<Ready>> {
    const healthOf = (ready: unknown): string =>
      health === '/health'
        ? `${engineUrl(ready as EngineReady)}${health}`
        : `${(ready as NodeReady).metrics}${health}`;
    const started = await this.start<Ready>(name, args, env);
    const watched = new WatchedProcess(name, started, healthOf(started.ready), this.secrets);
    this.processes.push(watched);
    return watched;
  }

  #common(name: string): string[] {
    const own = ['--data', join(this.dir, name), '--name', name];
    return ['--port', '0', '--metrics-port', '0', ...own];
  }
}

export function engineUrl({ api }: EngineReady): string {
  return api.replace(/\/v1$/, '');
}

function given<Value>(value: Value | undefined): Value {
  if (value === undefined) throw new Error('the fleet is not started');
  return value;
}

function fleetWith(url: string, reranker: string, agentNodes: readonly string[], agent: boolean): Fleet {
  const node = (id: string) => ({ id, url, dialect: 'vllm' as const });
  const pooled = [...models, rerankModel];
  const reported = [...agentNodes, ...(agent ? ['agent-1'] : [])];
  return {
    version: 1,
    models: pooled.map((id) => ({ id, family: 'echo' })),
    tiers: [{ id: 'Wide', models: '*' }],
    anonymous: { freeTurns: 1_000_000, networkFactor: 1000, models: ['echo-small'] },
    pool: {
      models: pooled,
      nodes: [
        node('pool-1'),
        { ...node('pool-rerank'), url: reranker },
        ...reported.map((id) => ({ ...node(id), agent: true })),
      ],
    },
    organisations: [
      {
        id: 'acme',
        name: 'Acme',
        tier: 'Wide',
        members: [{ person: 'vic', role: 'viewer' }],
        stacks: [
          { id: stacks.openai, surface: 'openai', models: [...models], nodes: [node('openai-1')] },
          { id: stacks.anthropic, surface: 'anthropic', models: [...models], nodes: [node('anthropic-1')] },
        ],
      },
    ],
  };
}
