/** Tests Kafka settings from the environment: which ones are valid, and that errors name the variable but never its value. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { KafkaSettingsInvalid, readKafkaSettings } from './settings.ts';

const folder = mkdtempSync(join(tmpdir(), 'headgate-kafka-settings-'));
afterAll(() => rmSync(folder, { recursive: true }));
const fixture = (name: string): string =>
  new URL(`../../../test/fixtures/tls/${name}`, import.meta.url).pathname;
const text = (name: string): string => readFileSync(fixture(name), 'utf8');
const pem = fixture('first.pem');
const notPem = join(folder, 'secret');
writeFileSync(notPem, 'secret');

test.each<[string, Record<string, string>, object]>([
  ['nothing', {}, {}],
  ['TLS with the system’s certificate authorities', { TLS: 'system' }, { tls: {} }],
  ['a private certificate authority', { TLS_CA: fixture('ca.pem') }, { tls: { ca: text('ca.pem') } }],
  [
    'a client certificate',
    { TLS_CERT: pem, TLS_KEY: fixture('first.key') },
    { tls: { cert: text('first.pem'), key: text('first.key') } },
  ],
  [
    'a mechanism in capitals',
    { SASL_MECHANISM: 'SCRAM-SHA-512', SASL_USERNAME: 'u', SASL_PASSWORD: 'p' },
    { sasl: { mechanism: 'scram-sha-512', username: 'u', password: 'p' } },
  ],
])('%s is valid', (_, environment, settings) => {
  expect(readKafkaSettings(withPrefix(environment))).toEqual(settings);
});

test.each<[string, Record<string, string>]>([
  ['TLS', { TLS: 'secret' }],
  ['TLS_CA', { TLS_CA: join(folder, 'secret-missing') }],
  ['TLS_CA', { TLS_CA: notPem }],
  ['TLS_CA, _TLS_CERT and _TLS_KEY', { TLS_CERT: pem, TLS_KEY: fixture('second.key') }],
  ['TLS_KEY', { TLS_CERT: pem }],
  ['TLS_CERT', { TLS_KEY: pem }],
  ['SASL_MECHANISM', { SASL_USERNAME: 'secret', SASL_PASSWORD: 'secret' }],
  ['SASL_MECHANISM', { SASL_MECHANISM: 'plain', SASL_USERNAME: 'secret' }],
  ['SASL_MECHANISM', { SASL_MECHANISM: 'secret', SASL_USERNAME: 'secret', SASL_PASSWORD: 'secret' }],
])('an invalid HEADGATE_KAFKA_%s is refused by name: %j', (name, environment) => {
  const parse = () => readKafkaSettings(withPrefix(environment));
  expect(parse).toThrow(KafkaSettingsInvalid);
  expect(parse).toThrow(`HEADGATE_KAFKA_${name}`);
  expect(parse).not.toThrow(/secret/);
});

function withPrefix(environment: Record<string, string>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(environment).map(([name, value]) => [`HEADGATE_KAFKA_${name}`, value]),
  );
}
