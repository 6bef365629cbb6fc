/**
 * A fleet of gateway processes that report their counts every two seconds, and clients that send each gateway a steady load.
 */
import type { Change } from '../../schemas/events/changes.ts';
import type { Fleet } from '../../schemas/events/fleet.ts';
import { completion, type GatewayProcess, type Plane, ProcessFleet } from '../support/process-fleet.ts';
import { until } from '../support/until.ts';

export const models = ['echo-small', 'echo-large'];
const organisation = 'acme';

/** A fleet with one tier, which is in use and includes both models of the pool. */
function stagedFleet(nodeUrl: string): Fleet {
  return {
    version: 1,
    models: models.map((id) => ({ id, family: 'echo', weight: 1 })),
    tiers: [{ id: 'Wide', models }],
    pool: { models, nodes: [{ id: 'pool-1', url: nodeUrl, dialect: 'vllm' }] },
    organisations: [{ id: organisation, name: 'Acme', tier: 'Wide' }],
  };
}

const shortReports = new URL('../support/short-reports.mjs', import.meta.url).pathname;
const oftenReported = { NODE_OPTIONS: `--import=${shortReports}` };

export class StagedFleet extends ProcessFleet {
  readonly planes = new Map<string, Plane>();
  readonly gateways = new Map<string, GatewayProcess>();
  key = '';

  /** Starts a node, control planes `cp-1`, `cp-2`, … and gateways named by `nameOf`. */
  async open(planes: number, gateways: number): Promise<void> {
    const node = await this.simNode('node', '--models', models.join(','), '--tokens-per-second', '0');
    for (let n = 1; n <= planes; n++) await this.plane(`cp-${n}`);
    await this.operator().apply(stagedFleet(node.ready.url));
    this.key = (await this.operator().createKey(organisation, 'k')).value;
    await Promise.all(Array.from({ length: gateways }, (_, at) => this.gateway(nameOf(at + 1))));
    await until(async () => (await this.operator().call('GET', '/gateways')).items.length === gateways);
    for (const { ready } of this.gateways.values())
      await until(async () => (await statusOf(ready.api, this.key)) === 200, 60_000);
  }

  /** Returns a client that calls the named control plane as the operator. Defaults to the first control plane. */
  operator(plane = [...this.planes.keys()][0] ?? '') {
    const found = this.planes.get(plane);
    if (!found) throw new Error(`no control plane ${plane}`);
    return this.admin(found);
  }

  /** Starts a control plane. If it ran before, it continues with its previous folder. */
  async plane(name: string): Promise<void> {
    this.planes.set(name, await this.startPlane(name));
  }

  async gateway(name: string): Promise<void> {
    this.gateways.set(name, await this.startGateway(name, { env: oftenReported }));
  }

  async kill(name: string): Promise<void> {
    await (this.planes.get(name) ?? this.gateways.get(name))?.end('SIGKILL');
  }

  /** Stages the removal of a model from the tier. `query` configures the waves. */
  stage(query: string, kept: readonly string[] = models.slice(0, 1)): Promise<Change> {
    return this.operator().call('PUT', `/tiers/Wide?stage=true&${query}`, {
      models: kept,
    }) as unknown as Promise<Change>;
  }

  async change(id: string, plane?: string): Promise<Change> {
    return (await this.operator(plane).call('GET', `/staged-changes/${id}`)) as Change;
  }
}

export const nameOf = (gateway: number): string => `gw-${String(gateway).padStart(2, '0')}`;

/** The model that changes remove from the tier. */
export const taken = models[1] ?? '';

export async function statusOf(api: string, key: string, model = taken): Promise<number> {
  const response = await completion(api, key, { model, max_tokens: 1 });
  await response.text();
  return response.status;
}

/** One client per gateway. Each sends ten requests a second, one after another. */
export class SteadyLoad {
  readonly counts = new Map<string, Map<number, number>>();
  readonly #clients: Promise<void>[];
  #isStopped = false;

  constructor({ gateways, key }: StagedFleet) {
    this.#clients = [...gateways].map(([name, { ready }]) =>
      this.#client(name, () => statusOf(ready.api, key)),
    );
  }

  total(of: (gateway: string, status: number) => boolean): number {
    let sum = 0;
    for (const [gateway, statuses] of this.counts)
      for (const [status, requests] of statuses) if (of(gateway, status)) sum += requests;
    return sum;
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await Promise.all(this.#clients);
  }

  async #client(name: string, ask: () => Promise<number>): Promise<void> {
    const own = new Map<number, number>();
    this.counts.set(name, own);
    while (!this.#isStopped) {
      const next = new Promise((resolve) => setTimeout(resolve, 100));
      const status = await ask();
      own.set(status, (own.get(status) ?? 0) + 1);
      await next;
    }
  }
}
