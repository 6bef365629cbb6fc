// Tests that during a rotation of the gateway token, the old token does not give access to the new one.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, expect, test } from 'vitest';
import { statusTopic } from '../../schemas/records/status.ts';
import { openLog } from '../../shared/log/open-log.ts';
import { StatusMac } from '../../shared/status/status-mac.ts';
import { gatewayToken, type Plane, ProcessFleet } from '../support/process-fleet.ts';
import { publish, reportOf } from '../support/status-reports.ts';
import { until } from '../support/until.ts';

const next = 'the-next-gateway-token';
const fleet = new ProcessFleet({ timeoutMs: 60_000 });
const asked: string[] = [];
const listener = createServer(({ url, headers }, response) => {
  asked.push(JSON.stringify({ url, headers }));
  response.writeHead(401, { 'www-authenticate': `Headgate-MAC challenge=${'c'.repeat(40)}` }).end();
});
afterAll(async () => {
  await fleet.close();
  listener.closeAllConnections();
  await new Promise((resolve) => listener.close(resolve));
});

test('a listener reported with the old token receives neither token', async () => {
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
  const metrics = `http://127.0.0.1:${(listener.address() as AddressInfo).port}`;
  const tokens = { HEADGATE_GATEWAY_TOKEN: next, HEADGATE_GATEWAY_TOKEN_PREVIOUS: gatewayToken };
  const admin = fleet.admin(await fleet.serve<Plane['ready']>('control-plane', 'plane', [], tokens));
  const log = await openLog(fleet.logUrl, { topic: statusTopic });
  await publish(log, reportOf({ name: 'gw-evil', metrics }), new StatusMac(gatewayToken));
  await log.close();
  await until(async () => ((await admin.call('GET', '/gateways'))['items'] as object[]).length === 1);
  const request = `req_${'0'.repeat(32)}`;
  await expect(admin.call('GET', `/decisions/${request}`)).rejects.toThrow('gw-evil');
  await until(() => asked.length === 2);
  for (const text of asked) expect(text).not.toMatch(/bearer|gateway-token/i);
});
