/**
 * A fleet of real processes in which every kind of answer can be had, and what the tests know of it: who has which key, tier,
 * nodes and stack. What explanations say is compared with these plain tables, never with the state of the product.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { DevAdmin } from '../../dev/dev-admin.ts';
import { controlTopic } from '../../schemas/commit.ts';
import type { Fleet } from '../../schemas/fleet.ts';
import { hashKey, mintKey } from '../../shared/ids/api-key.ts';
import { composeCommit } from '../../shared/log/core/chain.ts';
import { openLog } from '../../shared/log/open-log.ts';
import { headOf } from '../support/log-head.ts';
import { type GatewayProcess, opened, type Plane, ProcessFleet } from '../support/process-fleet.ts';
import { until } from '../support/until.ts';

/** Streams of these are held: the node begins them and never ends them. */
const heldModels = ['echo-small', 'echo-large'];
/** By the model's name, how the second node fails. */
export const nodeFaults = {
  'bad-refuse': { kind: 'refuse' },
  'bad-fault': { kind: 'status', status: 500 },
  'bad-request': { kind: 'status', status: 400, body: { message: 'no', code: 400 } },
  'bad-window': {
    kind: 'status',
    status: 400,
    body: {
      message: "This model's maximum context length is 600 tokens. However, you requested 700 tokens.",
    },
  },
} as const;
export type BadModel = keyof typeof nodeFaults;
const badModels = Object.keys(nodeFaults);

export const weights: Readonly<Record<string, number>> = { 'echo-large': 4, 'echo-heavy': 9 };
const ownModels = ['echo-small', 'echo-private'];
const firstModels = ['echo-small', 'echo-large', 'echo-heavy', 'echo-quick', 'echo-locked', 'echo-embed'];
/** Which models each node has loaded. */
export const loaded: Readonly<Record<string, readonly string[]>> = {
  'pool-1': firstModels,
  'pool-2': badModels,
  'acme-1': ownModels,
  'otter-1': firstModels,
  'heron-1': firstModels,
};
/** The nodes of each place, by id. */
export const places: Readonly<Record<string, readonly string[]>> = {
  pool: ['pool-1', 'pool-2'],
  'organisation:acme': ['acme-1'],
  'stack:stk-amber-otter-9k2f': ['otter-1'],
  'stack:stk-quiet-heron-4m7q': ['heron-1'],
};
export const installed = [...firstModels, ...badModels, 'echo-idle'];
export const catalogued = [...installed, 'echo-private', 'echo-bare'];

export interface Tier {
  readonly models: '*' | readonly string[];
  readonly requestsPerMinute?: number;
  readonly concurrency?: number;
  readonly contextTokens?: number;
  readonly monthlyTokens?: number;
}
const some = installed.filter((model) => model !== 'echo-locked');
export const tiers: Readonly<Record<string, Tier>> = {
  Near: { models: some, requestsPerMinute: 12, concurrency: 4, contextTokens: 5000 },
  Busy: { models: some, requestsPerMinute: 300, concurrency: 40, contextTokens: 5000 },
  Slots: { models: some, concurrency: 6 },
  Narrow: { models: some, contextTokens: 900 },
  Month: { models: some, monthlyTokens: 400 },
  Wide: { models: '*' },
};
export const tierOf: Readonly<Record<string, string | null>> = {
  ...{ 'near-a': 'Near', busy: 'Busy', slots: 'Slots', narrow: 'Narrow', month: 'Month' },
  ...{ acme: 'Wide', birch: 'Wide', dormant: null, paused: 'Wide' },
};
export const organisations = Object.keys(tierOf);

export const stacks = { otter: 'stk-amber-otter-9k2f', heron: 'stk-quiet-heron-4m7q' } as const;
export const missingStack = 'stk-never-made-7zzz';
export const stackOwners: Readonly<Record<string, string>> = {
  [stacks.otter]: 'acme',
  [stacks.heron]: 'birch',
};
export const surfaces: Readonly<Record<string, 'openai' | 'anthropic'>> = {
  [stacks.otter]: 'openai',
  [stacks.heron]: 'anthropic',
};
/** The models that each stack has installed, of which one is taken away and given back. */
export const stackModels: Readonly<Record<string, Set<string>>> = {
  [stacks.otter]: new Set(['echo-large', 'echo-embed']),
  [stacks.heron]: new Set(['echo-small']),
};
export const visitorLimits = {
  ...{ models: ['echo-small', 'echo-quick'], requestsPerMinute: 8, concurrency: 2, contextTokens: 4000 },
  total: { requestsPerMinute: 20, concurrency: 3, tokensPerDay: 10_000_000 },
};
export const freeTurns = 1_000_000;

function fleetOf(first: string, others: Readonly<Record<string, string>>): Fleet {
  const nodes = (place: string) =>
    (places[place] ?? []).map((id) => ({ id, url: others[id] ?? first, dialect: 'vllm' as const }));
  const stack = (id: string) => ({
    ...{ id, surface: surfaces[id] ?? 'openai', models: [...(stackModels[id] ?? [])] },
    nodes: nodes(`stack:${id}`),
  });
  return {
    version: 1,
    models: catalogued.map((id) => ({ id, family: 'echo', weight: weights[id] ?? 1 })),
    tiers: Object.entries(tiers).map(([id, { models: of, ...limits }]) => ({
      ...{ id, ...limits },
      models: of === '*' ? of : [...of],
    })),
    anonymous: { freeTurns, ...visitorLimits },
    pool: { models: [...installed], nodes: nodes('pool') },
    organisations: organisations.map((id) => ({
      ...{ id, name: `${id[0]?.toUpperCase()}${id.slice(1)} Ltd`, tier: tierOf[id] ?? null },
      nodes: nodes(`organisation:${id}`),
      stacks: Object.keys(stackOwners)
        .filter((one) => stackOwners[one] === id)
        .map(stack),
    })),
  };
}

/** What the test knows of a key. */
export interface TestKey {
  readonly value: string;
  /** How a person reads it: its name, and its id. */
  readonly text: string;
  readonly organisation: string;
  readonly state: 'good' | 'revoked' | 'expired';
  readonly id: string;
  readonly expiresAt?: string | undefined;
}

export type PlayingGateway = GatewayProcess['ready'] & { readonly play: string };

export class ExplainedFleet extends ProcessFleet {
  plane!: Plane;
  client!: DevAdmin;
  readonly gateways: PlayingGateway[] = [];
  readonly keys = new Map<string, TestKey>();

  static async begin(): Promise<ExplainedFleet> {
    const fleet = new ExplainedFleet({ timeoutMs: 60_000 });
    return opened(fleet, () => fleet.#begin());
  }

  async #begin(): Promise<void> {
    const held = heldModels.map((model) => ({
      match: { model, stream: true },
      fault: { kind: 'stall-after', afterEvents: 2 },
    }));
    const failing = badModels.map((model) => ({ match: { model }, fault: nodeFaults[model as BadModel] }));
    const first = await this.#node('first', firstModels, held);
    const failingUrl = await this.#node('failing', badModels, failing);
    const ownUrl = await this.#node('own', ownModels, held);
    this.plane = await this.startPlane();
    this.client = this.admin(this.plane);
    await this.client.apply(fleetOf(first, { 'pool-2': failingUrl, 'acme-1': ownUrl }));
    await this.client.call('PATCH', '/organisations/paused', { suspended: true });
    await this.#makeKeys();
    const flags = [
      '--stack-domain',
      'stacks.test',
      '--play-port',
      '0',
      '--control-plane',
      this.plane.ready.admin,
    ];
    const names = ['gateway-1', 'gateway-2'];
    const started = await Promise.all(
      names.map((name) => this.serve<PlayingGateway>('gateway', name, flags)),
    );
    this.gateways.push(...started.map(({ ready }) => ready));
    await until(async () => (await this.client.nodes()).every(({ up }) => up), 60_000);
    await this.settle();
  }

  async #node(name: string, models: readonly string[], rules: readonly object[]): Promise<string> {
    const path = join(this.dir, `${name}.behaviour.json`);
    writeFileSync(path, JSON.stringify({ rules }));
    const flags = ['--models', models.join(','), '--tokens-per-second', '0', '--behaviour', path];
    return (await this.faultyNode(name, ...flags)).ready.url;
  }

  async #makeKeys(): Promise<void> {
    for (const organisation of organisations) await this.makeKey(organisation, organisation);
    await this.makeKey('fleeting', 'birch');
    await this.makeKey('revoked', 'birch');
    await this.revoke('revoked');
    await this.#makeExpired('expired', 'birch');
  }

  async makeKey(who: string, organisation: string): Promise<void> {
    const { id, value } = await this.client.createKey(organisation, `k-${who}`);
    this.keys.set(who, { id, value, organisation, text: `k-${who} (${id})`, state: 'good' });
  }

  async revoke(who: string): Promise<void> {
    const key = this.keys.get(who);
    if (key === undefined) throw new Error(`there is no key ${who}`);
    await this.client.call('POST', `/keys/${key.id}/revoke`);
    this.keys.set(who, { ...key, state: 'revoked' });
  }

  /** No command makes a key that expires so soon. */
  async #makeExpired(who: string, organisation: string): Promise<void> {
    const value = mintKey(randomBytes);
    const id = `key-${randomUUID().slice(0, 13)}`;
    const expiresAt = new Date(Date.now() - 60_000).toISOString();
    const data = {
      id,
      organisation,
      name: `k-${who}`,
      hash: hashKey(value).toString('hex'),
      expires: '30d',
      expiresAt,
    };
    const log = await openLog(this.logUrl, { topic: controlTopic });
    const events = [{ type: 'key.created', v: 1, critical: true, data }];
    // What the control plane writes at the same moment takes its place.
    await until(async () => {
      const parts = { id: randomUUID(), at: new Date().toISOString(), by: 'operator', events };
      await log.append(composeCommit({ head: await headOf(log), ...parts }));
      await this.client.position();
      const { items } = await this.client.call('GET', '/keys');
      return items.some((key) => key.id === id);
    }, 30_000);
    await log.close();
    this.keys.set(who, { id, value, organisation, text: `k-${who} (${id})`, state: 'expired', expiresAt });
  }

  /** All that was commanded is in force at both gateways. */
  async settle(): Promise<void> {
    await until(async () => {
      const { complete, gateways } = await this.client.confirmed(await this.client.position(), 30);
      return complete && gateways.length === 2;
    }, 60_000);
    expect(this.gateways).toHaveLength(2);
  }

  /** Of a gateway's listener. */
  port(gateway: number, listener: 'api' | 'play' = 'api'): number {
    return Number(new URL(this.gateways[gateway]?.[listener] ?? '').port);
  }
}
