/** Both roads through real processes: a request to its answer, an event to its effect, and a kill -9 of each plane. */
import { expect } from 'vitest';
import {
  type GatewayProcess,
  organisation,
  type Plane,
  ProcessFleet,
  smallFleet,
  statusWith,
} from '../support/process-fleet.ts';
import { endpointOf, exchange, statusesIn } from '../support/raw-peer.ts';
import { until } from '../support/until.ts';

export async function bothRoads(logUrl?: string): Promise<void> {
  const fleet = new ProcessFleet({ logUrl, timeoutMs: 60_000 });
  try {
    const startPlane = () => fleet.serve<Plane['ready']>('control-plane', 'plane');
    const startGateway = () => fleet.serve<GatewayProcess['ready']>('gateway', 'gateway');
    const plane = await startPlane();
    const node = await fleet.simNode('node', '--models', 'echo-small', '--tokens-per-second', '0');
    const admin = fleet.admin(plane);
    await admin.apply(smallFleet(node.ready.url));
    const [key, revoked] = [
      await admin.createKey(organisation, 'k'),
      await admin.createKey(organisation, 'r'),
    ];
    let gateway = await startGateway();
    const complete = (key: { readonly value: string }) => statusWith(gateway.ready.api, key.value);
    await until(async () => (await complete(key)) === 200);

    await admin.call('POST', `/keys/${revoked.id}/revoke`);
    await until(async () => (await complete(revoked)) === 401);

    await plane.end('SIGKILL');
    expect(await complete(key)).toBe(200);
    await gateway.end('SIGKILL');
    gateway = await startGateway();
    await until(async () => (await complete(key)) === 200);
    expect(await complete(revoked)).toBe(401);

    const again = await startPlane();
    const late = await fleet.admin(again).createKey(organisation, 'late');
    await until(async () => (await complete(late)) === 200);
    for (const url of [again.ready.admin, gateway.ready.api, gateway.ready.metrics, node.ready.url]) {
      expect(statusesIn(await exchange(endpointOf(url), '\0\x01\r\n\r\n'))).toEqual([400]);
    }
    for (const { ready } of [again, gateway])
      expect((await fetch(`${ready.metrics}/livez`)).status).toBe(200);
  } finally {
    await fleet.close();
  }
}
