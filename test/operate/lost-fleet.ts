/**
 * Checks that a backup restores everything after a whole fleet is lost, including its data folders and its log. The tests for
 * Kafka and for the embedded log both use this file.
 */
import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import {
  type GatewayProcess,
  model,
  organisation,
  type Plane,
  ProcessFleet,
  smallFleet,
  statusWith,
} from '../support/process-fleet.ts';
import { until } from '../support/until.ts';

/** Monthly allowance in tokens. A few completions are enough to use it up. */
const allowance = 60;
const sameTables = [
  'tier',
  'tier_model',
  'model',
  'organisation',
  'member',
  'api_key',
  'stack',
  'stack_model',
];

type Answer = Awaited<ReturnType<ReturnType<ProcessFleet['admin']>['call']>>;

class LosableFleet extends ProcessFleet {
  plane!: Plane;
  gateway!: GatewayProcess;

  async startAll(planeFolder: string): Promise<void> {
    const data = join(this.dir, planeFolder);
    this.plane = await this.serve('control-plane', 'cp', ['--data', data]);
    this.gateway = await this.serve('gateway', 'gw', ['--control-plane', this.plane.ready.admin]);
  }

  get(path: string): Promise<Answer> {
    return this.admin(this.plane).call('GET', path);
  }

  async headgate(line: string): Promise<Record<string, unknown>> {
    const run = await this.cli([...line.split(' '), '-o', 'json']);
    expect([run.code, run.stderr.split('\n').filter((text) => text.startsWith('error'))]).toEqual([0, []]);
    return JSON.parse(run.stdout) as Record<string, unknown>;
  }

  complete(key: { readonly value: string }): Promise<number> {
    return statusWith(this.gateway.ready.api, key.value);
  }

  async everything(): Promise<object> {
    const digests = (await this.get('/status'))['digests'] as Record<string, string>;
    return {
      digests: Object.fromEntries(sameTables.map((table) => [table, digests[table]])),
      keys: (await this.get('/keys'))['items'],
      stacks: (await this.get('/stacks'))['items'],
      usage: await this.get(`/usage?organisation=${organisation}`),
    };
  }
}

function document(nodeUrl: string): Parameters<ReturnType<ProcessFleet['admin']>['apply']>[0] {
  const base = smallFleet(nodeUrl) as { organisations: object[] };
  base.organisations = [
    {
      ...{ id: organisation, name: 'Acme', tier: 'Small', members: [{ person: 'ana', role: 'owner' }] },
      stacks: [{ id: 'stk-amber-otter-9k2f', surface: 'openai', models: [model] }],
    },
    { id: 'elm', name: 'Elm', tier: 'Wide' },
  ];
  const tiers = [
    { id: 'Small', models: '*', monthlyTokens: allowance },
    { id: 'Wide', models: '*' },
  ];
  return { ...base, tiers } as unknown as Parameters<ReturnType<ProcessFleet['admin']>['apply']>[0];
}

/** Runs the whole scenario. `loseLog` removes the log with all its topics. */
export async function losesEverything(
  logUrl: string | undefined,
  loseLog: (fleet: ProcessFleet) => Promise<void> | void,
): Promise<void> {
  const fleet = new LosableFleet({ logUrl, timeoutMs: 60_000 });
  try {
    const node = await fleet.simNode('node', '--models', model, '--tokens-per-second', '0');
    await fleet.startAll('cp');
    const admin = fleet.admin(fleet.plane);
    await admin.apply(document(node.ready.url));
    const kept = await admin.createKey(organisation, 'kept');
    const backup = `backup ${join(fleet.dir, 'copy')} --data ${join(fleet.dir, 'cp')}`;
    const first = await fleet.headgate(backup);

    // The second backup includes the later changes: keys, a revocation and usage.
    const revoked = await admin.createKey(organisation, 'revoked');
    const elm = await admin.createKey('elm', 'elm');
    await admin.call('POST', `/keys/${revoked.id}/revoke`);
    await until(async () => (await fleet.complete(elm)) === 200, 60_000);
    let completed = 0;
    while ((await fleet.complete(kept)) === 200) completed++;
    expect(await fleet.complete(kept)).toBe(409);
    await until(
      async () => Number((await fleet.get(`/usage?organisation=${organisation}`))['requests']) === completed,
      60_000,
    );
    const second = await fleet.headgate(backup);
    expect(Number(second['position'])).toBeGreaterThan(Number(first['position']));
    const before = await fleet.everything();

    await fleet.gateway.end('SIGKILL');
    await fleet.plane.end('SIGKILL');
    for (const name of ['cp', 'gw']) rmSync(join(fleet.dir, name), { recursive: true });
    await loseLog(fleet);
    const restored = join(fleet.dir, 'cp-again');
    await fleet.headgate(
      `backup restore ${join(fleet.dir, 'copy')} --log ${fleet.logUrl} --data ${restored} --allow-unsigned --yes`,
    );
    expect(readdirSync(restored).sort()).toEqual(['counters.db', 'gateways.db', 'lock.db', 'usage.db']);

    await fleet.startAll('cp-again');
    expect(await fleet.everything()).toEqual(before);
    await until(async () => (await fleet.complete(elm)) === 200, 60_000);
    expect([await fleet.complete(revoked), await fleet.complete(kept)]).toEqual([401, 409]);
    // The fleet carries on: it takes commands, and new usage adds to the earlier totals.
    const later = await fleet.admin(fleet.plane).createKey('elm', 'later');
    await until(async () => (await fleet.complete(later)) === 200, 60_000);
    await until(async () => Number((await fleet.get('/usage?organisation=elm'))['requests']) >= 3, 60_000);
    expect((await fleet.headgate(backup.replace(/\/cp$/, '/cp-again')))['position']).toBeGreaterThan(
      Number(second['position']),
    );
  } finally {
    await fleet.close();
  }
}
