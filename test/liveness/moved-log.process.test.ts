/** Tests a running fleet whose embedded log folder is moved away and put back. */
import { existsSync, renameSync } from 'node:fs';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { completion, ProcessFleet, statusWith } from '../support/process-fleet.ts';

let fleet: ProcessFleet;
beforeEach(() => {
  fleet = new ProcessFleet();
});
afterEach(() => fleet.close());

test('while the log is away no other is created and requests are explained, and afterwards all usage is billed', async () => {
  const { plane, gateway, key } = await fleet.stand();
  await vi.waitFor(async () => expect(await statusWith(gateway.ready.api, key)).toBe(200), 20_000);
  const env = { HEADGATE_ADMIN: plane.ready.admin };
  const doctor = () => fleet.cli(['doctor', '--only', 'log,gateways'], env);
  await vi.waitFor(async () => expect((await doctor()).stdout).not.toContain('HG2007'), 30_000);

  renameSync(fleet.logFolder, `${fleet.logFolder}.away`);
  const answers = [await completion(gateway.ready.api, key), await completion(gateway.ready.api, key)];
  expect(answers.map(({ status }) => status)).toEqual([200, 200]);
  const id = answers[0]?.headers.get('x-request-id') ?? '';
  await vi.waitFor(async () => expect((await doctor()).stdout).toMatch(/HG2012.*headgate\.status/s), 30_000);
  expect((await doctor()).stdout).not.toMatch(/HG2007|for 0 s|HG4002/);
  const explained = await fleet.cli(['explain', '--request', id], env);
  expect(explained).toMatchObject({ code: 0, stdout: expect.stringMatching(/^served/) });
  const refused = await fleet.cli(
    ['key', 'create', '--org', 'acme', '--name', 'k2', '--expires', 'never'],
    env,
  );
  expect(refused.stderr).toContain('removed');
  expect(existsSync(fleet.logFolder)).toBe(false);

  await Promise.all([plane.end('SIGTERM'), gateway.end('SIGTERM')]);
  renameSync(`${fleet.logFolder}.away`, fleet.logFolder);
  const back = await fleet.startPlane('plane');
  await fleet.startGateway('gateway-1');
  const rows = async () => {
    const { stdout } = await fleet.cli(['usage', 'export'], { HEADGATE_ADMIN: back.ready.admin });
    return stdout.split('\n').filter((line) => line.includes('"acme"')).length;
  };
  await vi.waitFor(async () => expect(await rows()).toBe(3), 30_000);
}, 180_000);
