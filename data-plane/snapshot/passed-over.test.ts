/**
 * Tests that a gateway that skips an unreadable event that it does not need shows the event and the reason in the gateway
 * list.
 */
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { composeCommit } from '../../shared/log/core/chain.ts';
import { openLog } from '../../shared/log/open-log.ts';
import { openExisting } from '../../shared/snapshot/open-snapshot.ts';
import { operatorToken, startFleet } from '../../test/support/fleet.ts';
import { runCli } from '../../test/support/run-cli.ts';

test('the gateway list shows a later version’s event that a gateway passed over, with its commit and type', async () => {
  const fleet = await startFleet();
  onTestFinished(() => fleet.close());
  await fleet.settle();
  const listed = async () => (await fleet.admin.call('GET', '/gateways')).items[0];
  expect(await listed()).not.toHaveProperty('passedOver');
  const snapshot = openExisting(join(fleet.dir, 'control-plane', 'state.db'), { readOnly: true });
  const { head } = snapshot;
  snapshot.close();
  const log = await openLog(fleet.logUrl, { topic: 'headgate.control' });
  onTestFinished(() => log.close());
  const events = [{ type: 'later.event', v: 1, critical: false, data: {} }];
  await log.append(
    composeCommit({ head, id: 'later', at: new Date().toISOString(), by: 'operator', events }),
  );
  const text = `commit ${head.seq + 1}: event type later.event is not known to this build`;
  await expect.poll(async () => (await listed())?.passedOver, { timeout: 20_000 }).toBe(text);
  expect(await listed()).toMatchObject({ state: 'SYNCED' });
  const env = { HEADGATE_ADMIN: fleet.controlPlane.admin, HEADGATE_TOKEN: operatorToken };
  expect((await runCli(['gateway', 'get', 'gateway-1'], { env })).out).toContain(text);
});
