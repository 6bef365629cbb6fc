/**
 * The real processes of a soak test: an embedded or given log, a control plane, three simulated nodes, and the gateways that
 * a scenario starts. Also reads the second and third account: what the nodes finished and what the usage log contains.
 */

import { join } from 'node:path';
import { UsageReplicator } from '../../control-plane/usage/usage-replicator.ts';
import { openUsageStore } from '../../control-plane/usage/usage-store.ts';
import { type UsageRow, usageTopic } from '../../schemas/records/usage.ts';
import { RecordMac } from '../../shared/log/core/record-mac.ts';
import { usageLogAddress } from '../../shared/usage/usage-log.ts';
import type { DevAdmin } from '../../tools/dev/dev-admin.ts';
import type { Behaviour } from '../simulator/behaviour.ts';
import type { EndedExchange, SimStats } from '../simulator/ledger.ts';
import { type GatewayProcess, gatewayToken, opened, ProcessFleet } from '../support/process-fleet.ts';
import { until } from '../support/until.ts';
import type { Client } from './clients.ts';

const nodeCount = 3;
/** Number of clients. Every eighth belongs to the organisation on the narrow tier, which allows few concurrent requests. */
export const clientCount = 64;
/** Concurrency of the narrow tier, in in-flight units. */
export const narrowUnits = 8;
const tokensPerSecond = 1000;

export type SoakGateway = GatewayProcess;

export interface OrganisationTotals {
  readonly totalTokens: number;
  readonly requests: number;
}

/** A simulated node, with a list of all inference requests that it has ended. */
class SoakNode {
  readonly url: string;
  readonly ended: EndedExchange[] = [];
  readonly #known = new Set<string>();

  constructor(url: string) {
    this.url = url;
  }

  async stats(): Promise<SimStats> {
    return (await (await fetch(`${this.url}/sim/stats`)).json()) as SimStats;
  }

  /** Collects the exchanges that have ended since the last call. Throws if the node may have dropped some of them by now. */
  async note(): Promise<void> {
    const { exchanges } = await this.stats();
    const fresh = exchanges.filter(({ id }) => id !== '' && !this.#known.has(id));
    if (fresh.length >= 900) throw new Error('the node was asked too seldom what it did');
    for (const exchange of fresh) {
      this.#known.add(exchange.id);
      this.ended.push(exchange);
    }
  }

  /** Changes the node's behaviour. Returns false if the node currently accepts no connections. */
  async behave(behaviour: Partial<Behaviour>): Promise<boolean> {
    const sent = await fetch(`${this.url}/sim/behaviour`, {
      method: 'PUT',
      body: JSON.stringify(behaviour),
    }).catch(() => undefined);
    return sent?.ok ?? false;
  }
}

export class SoakFleet extends ProcessFleet {
  readonly nodes: SoakNode[] = [];
  /** The clients, each with a model of its own. Every eighth belongs to the narrow organisation. */
  clients: Client[] = [];
  narrow: Client[] = [];
  #admin: DevAdmin | undefined;
  #files = 0;

  /** Starts the processes, with an embedded log unless `logUrl` is given. */
  static async start(logUrl?: string): Promise<SoakFleet> {
    const fleet = new SoakFleet({ logUrl });
    return opened(fleet, () => fleet.#open());
  }

  /** Starts a gateway with short time-outs towards the nodes. Gateways of the same name share a data folder. */
  async gateway(name: string, ...more: string[]): Promise<SoakGateway> {
    const waits = ['--connect-timeout', '0.5', '--first-event-timeout', '0.4', '--idle-timeout', '0.4'];
    return this.serve('gateway', name, [...waits, ...more]);
  }

  /** Starts a further control plane, which folds the usage log from its beginning. */
  async controlPlane(name: string): Promise<DevAdmin> {
    return this.admin(await this.startPlane(name));
  }

  /** Returns the organisation's totals. Defaults to the control plane that has run since the start. */
  totals(organisation: string, admin = this.#admin): Promise<OrganisationTotals> {
    if (admin === undefined) throw new Error('the fleet has not started');
    return admin.call('GET', `/usage?organisation=${organisation}`);
  }

  /** Tokens counted against the organisation's allowance across all gateways, as `limits show` reports them. */
  async counted(organisation: string): Promise<number> {
    if (this.#admin === undefined) throw new Error('the fleet has not started');
    return (await this.#admin.call('GET', `/organisations/${organisation}/limits`)).tokens.used;
  }

  /** Returns every row of a fresh fold of the usage log, in the order of the log. */
  async usageRows(): Promise<UsageRow[]> {
    const mac = new RecordMac(usageTopic, gatewayToken);
    const store = openUsageStore(join(this.dir, `rows-${this.#files++}.db`), { keepRows: true, mac });
    const replicator = new UsageReplicator({ store, ...usageLogAddress(this.logUrl) });
    replicator.start();
    try {
      if (!(await replicator.caughtUp(60_000))) throw new Error('the usage log could not be read to its end');
      if (store.parkedRows > 0) throw new Error(`${store.parkedRows} rows wait for others that are missing`);
      const { repeated: _, applied, parked: __, ...wrong } = store.counts;
      if (Object.values(wrong).some((count) => count > 0)) throw new Error(JSON.stringify(wrong));
      return store.requests({ limit: applied + 1 }).map(({ row }) => row);
    } finally {
      await replicator.stop();
      store.close();
    }
  }

  async note(): Promise<void> {
    // A node that refuses connections is skipped. It keeps its exchanges until it accepts connections again.
    await Promise.all(this.nodes.map((node) => node.note().catch(ignoreUnreachable)));
  }

  async finished(): Promise<Map<string, number>> {
    await this.note();
    const counts = new Map<string, number>();
    for (const { ended } of this.nodes)
      for (const { model, outcome } of ended)
        if (outcome === 'completed') counts.set(model, (counts.get(model) ?? 0) + 1);
    return counts;
  }

  async healNodes(): Promise<void> {
    await until(async () => (await Promise.all(this.nodes.map((node) => node.behave({})))).every(Boolean));
  }

  async #open(): Promise<void> {
    const models = Array.from({ length: clientCount }, (_, index) => `m-${index}`);
    const pace = ['--tokens-per-second', String(tokensPerSecond), '--models', models.join()];
    for (let index = 0; index < nodeCount; index++) {
      const { ready } = await this.faultyNode(`node-${index}`, ...pace);
      this.nodes.push(new SoakNode(ready.url));
    }
    const admin = await this.controlPlane('control-plane');
    this.#admin = admin;
    await admin.apply({
      version: 1,
      // Half of the narrow organisation's clients ask for models that weigh more than 1.
      models: models.map((id, index) => ({ id, family: 'echo', weight: index % 16 === 0 ? 3 : 1 })),
      tiers: [
        { id: 'Narrow', concurrency: narrowUnits, models: '*' },
        { id: 'Wide', models: '*' },
      ],
      pool: {
        models,
        nodes: this.nodes.map(({ url }, index) => ({ id: `pool-${index}`, url, dialect: 'vllm' })),
      },
      organisations: [
        { id: 'narrow', name: 'Narrow', tier: 'Narrow' },
        { id: 'wide', name: 'Wide', tier: 'Wide' },
      ],
    });
    const { value: narrowKey } = await admin.createKey('narrow', 'soak');
    const { value: wideKey } = await admin.createKey('wide', 'soak');
    this.clients = models.map((model, index) => ({ model, key: index % 8 === 0 ? narrowKey : wideKey }));
    this.narrow = this.clients.filter(({ key }) => key === narrowKey);
    await until(async () => (await admin.nodes()).every(({ up }) => up), 30_000);
  }
}

function ignoreUnreachable(error: unknown): void {
  if (!(error instanceof TypeError)) throw error;
}
