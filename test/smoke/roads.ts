/**
 * Tests both main paths with real processes: from a request to its answer, and from an event to its effect. Also kills a
 * gateway and a control plane with SIGKILL.
 */
import { expect } from 'vitest';
import { organisation, ProcessFleet, statusWith } from '../support/process-fleet.ts';
import { endpointOf, exchange, statusesIn } from '../support/raw-peer.ts';
import { until } from '../support/until.ts';

export async function bothRoads(logUrl?: string): Promise<void> {
  const fleet = new ProcessFleet({ logUrl, timeoutMs: 60_000 });
  try {
    const { plane, node, admin, key, gateway: first } = await fleet.stand();
    const { id, value: revoked } = await admin.createKey(organisation, 'r');
    let gateway = first;
    const complete = (value: string) => statusWith(gateway.ready.api, value);
    await until(async () => (await complete(key)) === 200);

    await admin.call('POST', `/keys/${id}/revoke`);
    await until(async () => (await complete(revoked)) === 401);

    await plane.end('SIGKILL');
    expect(await complete(key)).toBe(200);
    await gateway.end('SIGKILL');
    gateway = await fleet.startGateway('gateway-1');
    await until(async () => (await complete(key)) === 200);
    expect(await complete(revoked)).toBe(401);

    const again = await fleet.startPlane();
    const { value: late } = await again.admin.createKey(organisation, 'late');
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
