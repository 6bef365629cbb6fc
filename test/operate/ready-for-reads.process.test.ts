/**
 * Tests that a control plane that cannot change anything reports that it is ready for reads if no other replica is in a
 * better state. A load balancer that checks `/readyz?reads` then still has a target when the log is down. The control plane
 * must not be ready if another replica is healthy or if it is closing.
 */
import { generateKeyPairSync } from 'node:crypto';
import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Plane, ProcessFleet } from '../support/process-fleet.ts';
import { until } from '../support/until.ts';

const fleet = new ProcessFleet();
const signingKey = join(fleet.dir, 'signing.pem');
let able: Plane;
/** A control plane without a signing key, so it cannot carry out commands. */
let unable: Plane;

beforeAll(async () => {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' });
  writeFileSync(signingKey, pem, { mode: 0o600 });
  writeFileSync(`${signingKey}.pub`, publicKey.export({ type: 'spki', format: 'pem' }));
  unable = await fleet.serve('control-plane', 'cp-unable');
  await startAble();
  const env = { HEADGATE_ADMIN: able.ready.admin };
  const { code, stderr } = await fleet.cli(['signer', 'add', `${signingKey}.pub`, '--force'], env);
  expect([code, stderr]).toEqual([0, expect.anything()]);
}, 120_000);
async function startAble(): Promise<void> {
  const flags = ['--allow-unsigned', '--drain-delay', '30'];
  able = await fleet.serve('control-plane', 'cp-able', flags, { HEADGATE_SIGNING_KEY: signingKey });
}

afterAll(() => fleet.close());

async function states({ ready }: Plane): Promise<{ readyz: number; reads: number }> {
  const [readyz, reads] = await Promise.all(
    ['', '?reads'].map(async (query) => {
      const response = await fetch(`${ready.metrics}/readyz${query}`);
      await response.text();
      return response.status;
    }),
  );
  return { readyz: readyz ?? 0, reads: reads ?? 0 };
}

const become = (plane: Plane, readyz: number, reads: number) =>
  until(async () => {
    const now = await states(plane);
    return now.readyz === readyz && now.reads === reads;
  }, 60_000);

test('reads go to a healthy replica as long as there is one', async () => {
  await become(able, 200, 200);
  await become(unable, 503, 503);
});

test('a closing replica gets no reads, and another takes them even if it cannot write', async () => {
  able.child.kill('SIGTERM');
  await until(async () => (await states(able)).reads === 503);
  await able.end('SIGKILL');
  await become(unable, 503, 200);
});

test('without the log no replica is ready, but all answer reads', async () => {
  await startAble();
  await become(unable, 503, 503);
  renameSync(fleet.logFolder, `${fleet.logFolder}-away`);
  await become(able, 503, 200);
  await become(unable, 503, 200);
  expect((await fleet.cli(['org', 'list'], { HEADGATE_ADMIN: able.ready.admin })).code).toBe(0);
});
