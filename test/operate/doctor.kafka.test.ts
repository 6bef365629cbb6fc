/**
 * Makes the checks of `doctor` about brokers fail with real brokers: a topic with changed settings, a single broker, a
 * missing broker, and a replica without a signing key.
 */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { type Admin, Kafka as KafkajsClient, logLevel } from 'kafkajs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Kafka, startKafka } from '../kafka/broker.ts';
import { checksIn, faultsIn } from '../support/checks.ts';
import { operatorToken, type Plane, ProcessFleet } from '../support/process-fleet.ts';
import { runCli } from '../support/run-cli.ts';
import { until } from '../support/until.ts';

const waitMs = 60_000;
const planted = new URL('../support/planted-machine.mjs', import.meta.url).href;
let kafka: Kafka;
let fleet: ProcessFleet;
let brokers: Admin;
let plane: Plane;
let unsigned: Plane;

beforeAll(async () => {
  kafka = await startKafka();
  fleet = new ProcessFleet({ logUrl: kafka.url, env: { HEADGATE_SIGNING_KEY: undefined } });
  brokers = new KafkajsClient({ brokers: [...kafka.brokers], logLevel: logLevel.NOTHING }).admin();
  await brokers.connect();
  const [key, publicKey] = [join(fleet.dir, 'key.pem'), join(fleet.dir, 'key.pub')];
  execFileSync('openssl', ['genpkey', '-algorithm', 'ed25519', '-out', key]);
  execFileSync('openssl', ['pkey', '-in', key, '-pubout', '-out', publicKey]);
  // This replica starts before the log is signed, and its brokers appear to be of an old release.
  const env = { NODE_OPTIONS: `--import=${planted}`, HEADGATE_TEST_FETCH: '12' };
  unsigned = await fleet.serve('control-plane', 'cp-unsigned', [], env);
  plane = await fleet.serve('control-plane', 'cp', ['--allow-unsigned'], { HEADGATE_SIGNING_KEY: key });
  const added = await fleet.cli(['signer', 'add', publicKey, '--force'], {
    HEADGATE_ADMIN: plane.ready.admin,
  });
  expect(added).toMatchObject({ code: 0 });
}, 180_000);
afterAll(async () => {
  await brokers?.disconnect().catch(() => undefined);
  await fleet?.close();
  await kafka?.stop();
});

async function doctor({ ready }: Plane): Promise<string> {
  const env = { HEADGATE_ADMIN: ready.admin, HEADGATE_TOKEN: operatorToken };
  return (await runCli(['doctor', '--only', 'log,control-planes', '-o', 'json'], { env })).out;
}
const findings = async (of: Plane): Promise<string[]> => faultsIn(await doctor(of));
const found = (finding: string, of = plane) =>
  until(async () => (await findings(of)).includes(finding), waitMs);

test('HG2005, HG2010 and HG2011: a replica cannot sign, brokers are old, or there is only one', async () => {
  await found('HG2005 fail cp-unsigned');
  expect(await findings(plane)).toEqual(['HG2005 fail cp-unsigned', 'HG2011 warn']);
  await found('HG2010 warn', unsigned);
});

test('HG2009: a topic setting was changed while processes run, with the repairing command', async () => {
  const set = (value: string) =>
    brokers.alterConfigs({
      validateOnly: false,
      resources: [{ type: 2, name: 'headgate.control', configEntries: [{ name: 'retention.ms', value }] }],
    });
  await set('604800000');
  await found('HG2009 fail headgate.control');
  const fault = checksIn(await doctor(plane)).find(({ code }) => code === 'HG2009');
  expect(fault?.next).toContain('--entity-name headgate.control --add-config');
  await set('-1');
});

test('HG2001: the brokers are unreachable', async () => {
  await kafka.kill(1);
  await found('HG2001 fail');
});
