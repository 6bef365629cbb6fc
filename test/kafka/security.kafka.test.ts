/**
 * Tests a broker that requires TLS and a password. A client with both is accepted, and a client without them learns the
 * reason at once.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { LogUnavailable } from '../../shared/log/core/control-log.ts';
import { openKafkaLog } from '../../shared/log/kafka/kafka-log.ts';
import type { KafkaSasl, KafkaSettings } from '../../shared/log/kafka/settings.ts';
import { promptly, readRecords } from '../contract/control-log.ts';
import { type Kafka, startKafka } from './broker.ts';

const folder = mkdtempSync(join(tmpdir(), 'headgate-kafka-tls-'));
const store = join(folder, 'broker.p12');
const password = 'not-a-real-one';
let kafka: Kafka;
let ca: string;

const plain: KafkaSasl = { mechanism: 'plain', username: 'headgate', password };
const options = { topic: 'secured', partition: 0, openTimeoutMs: 1500, endTimeoutMs: 1000 };

beforeAll(async () => {
  const keystore = ['-keystore', store, '-storepass', password, '-alias', 'broker'];
  const names = ['-dname', 'CN=broker', '-ext', 'SAN=ip:127.0.0.1', '-validity', '2'];
  execFileSync('keytool', ['-genkeypair', '-keyalg', 'EC', ...names, ...keystore], { stdio: 'ignore' });
  ca = execFileSync('keytool', ['-exportcert', '-rfc', ...keystore], {
    stdio: ['ignore', 'pipe', 'ignore'],
  }).toString();
  const trusted = join(folder, 'trusted.p12');
  const words = [
    '-importcert',
    '-noprompt',
    '-alias',
    'broker',
    '-keystore',
    trusted,
    '-storepass',
    password,
  ];
  execFileSync('keytool', words, { input: ca, stdio: ['pipe', 'ignore', 'ignore'] });
  const module = 'org.apache.kafka.common.security';
  kafka = await startKafka({
    settings: { tls: { ca }, sasl: plain },
    formatWords: ['-S', `SCRAM-SHA-512=[name=headgate,password=${password}]`],
    properties: [
      'listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:SASL_SSL',
      'sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512',
      'sasl.mechanism.inter.broker.protocol=PLAIN',
      `listener.name.plaintext.plain.sasl.jaas.config=${module}.plain.PlainLoginModule required username="headgate" password="${password}" user_headgate="${password}";`,
      `listener.name.plaintext.scram-sha-512.sasl.jaas.config=${module}.scram.ScramLoginModule required;`,
      `ssl.keystore.location=${store}`,
      'ssl.keystore.type=PKCS12',
      // Kafka verifies its own certificate when it starts.
      `ssl.truststore.location=${trusted}`,
      `ssl.truststore.password=${password}`,
      `ssl.keystore.password=${password}`,
      `ssl.key.password=${password}`,
    ],
  });
});
afterAll(async () => {
  await kafka?.stop();
  rmSync(folder, { recursive: true });
});

test.each<KafkaSasl>([plain, { ...plain, mechanism: 'scram-sha-512' }])(
  'a log works over TLS with $mechanism',
  async (sasl) => {
    const log = await openKafkaLog(kafka.brokers, { tls: { ca }, sasl }, options);
    const offset = await log.append(Buffer.from(sasl.mechanism));
    const [record] = await readRecords(log, 1, { from: offset });
    expect(String(record!.value)).toBe(sasl.mechanism);
    await log.close();
  },
);

test('a wrong password is reported when opening, and not repeated', async () => {
  const settings = { tls: { ca }, sasl: { ...plain, password: 'wrong-secret' } };
  const opening = openKafkaLog(kafka.brokers, settings, options);
  const error = await promptly(opening, 'the error').catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(LogUnavailable);
  expect(String(error)).toContain('SASL');
  expect(String(error)).not.toContain('wrong-secret');
});

test.each<[string, () => KafkaSettings]>([
  ['no password', () => ({ tls: { ca } })],
  ['an authority that did not sign the certificate', () => ({ tls: {}, sasl: plain })],
  ['no TLS', () => ({ sasl: plain })],
])('with %s the log is unavailable in time, and the text repeats nothing', async (_, settings) => {
  const log = await promptly(openKafkaLog(kafka.brokers, settings(), options), 'opening');
  const error = await promptly(log.end(), 'the end').catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(LogUnavailable);
  expect(String(error)).not.toMatch(/wrong-secret|not-a-real-one|127\.0\.0\.1/);
  await promptly(log.close(), 'closing');
});
