import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { Closers } from '../../shared/runtime/closers.ts';
import { openTraceExport } from './export-traces.ts';
import { readTraceSettings } from './trace-settings.ts';

const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318' };

test.each([
  ['no endpoint', {}],
  ['a blank endpoint', { OTEL_EXPORTER_OTLP_ENDPOINT: ' ' }],
  ['the SDK disabled', { ...endpoint, OTEL_SDK_DISABLED: 'TRUE' }],
  ['no exporter', { ...endpoint, OTEL_TRACES_EXPORTER: 'none' }],
])('with %s there are no traces', (_, env) => {
  expect(readTraceSettings(env)).toBeUndefined();
});

test.each([
  ['no endpoint', {}, []],
  ['a blank endpoint', { OTEL_EXPORTER_OTLP_ENDPOINT: '' }, ['OTEL_EXPORTER_OTLP_ENDPOINT']],
  ['a blank endpoint, disabled', { OTEL_EXPORTER_OTLP_ENDPOINT: '', OTEL_SDK_DISABLED: 'true' }, []],
  [
    'a blank traces endpoint',
    { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: ' ' },
    ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'],
  ],
])('with %s a gateway sends no traces, and logs a blank variable', async (_, env, logged) => {
  const lines: unknown[] = [];
  const log = (fields: object, text: string): unknown => lines.push({ ...fields, text });
  const options = {
    ...{
      name: 'gateway-1',
      isKnown: () => true,
      closers: new Closers({ error: log }),
      registry: new Registry(),
    },
    logger: { warn: log, error: log, fatal: log },
  };
  expect(await openTraceExport(options, env)).toBeUndefined();
  const text = 'no traces are sent, because the address of the receiver is empty';
  expect(lines).toEqual(logged.map((variable) => ({ variable, text })));
});

test('with no further variables, every request is recorded unless its client declines', () => {
  expect(readTraceSettings(endpoint)).toEqual({
    ratio: 1,
    followsClient: true,
    queue: {
      maxQueueSize: 2048,
      maxExportBatchSize: 512,
      scheduledDelayMillis: 5000,
      exportTimeoutMillis: 30_000,
    },
  });
  expect(
    readTraceSettings({ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'https://user:pw@collector/v1/traces' }),
  ).toBeDefined();
});

test.each<[string, string | undefined, number, boolean]>([
  ['always_on', undefined, 1, false],
  ['always_off', undefined, 0, false],
  ['traceidratio', '0.25', 0.25, false],
  ['traceidratio', undefined, 1, false],
  ['parentbased_always_on', '0.25', 1, true],
  ['parentbased_always_off', undefined, 0, true],
  ['parentbased_traceidratio', '0', 0, true],
])('the sampler %s with %s', (sampler, argument, ratio, followsClient) => {
  const env = { ...endpoint, OTEL_TRACES_SAMPLER: sampler, OTEL_TRACES_SAMPLER_ARG: argument };
  expect(readTraceSettings(env)).toMatchObject({ ratio, followsClient });
});

test.each<[string, string]>([
  ['OTEL_EXPORTER_OTLP_ENDPOINT', 'secret-collector:4318'],
  ['OTEL_EXPORTER_OTLP_ENDPOINT', 'secret-collector'],
  ['OTEL_EXPORTER_OTLP_ENDPOINT', 'grpc://secret-collector:4317'],
  ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', '//secret-collector:4318'],
  ['OTEL_EXPORTER_OTLP_PROTOCOL', 'grpc'],
  ['OTEL_EXPORTER_OTLP_TRACES_PROTOCOL', 'grpc'],
  ['OTEL_EXPORTER_OTLP_CERTIFICATE', '/nonexistent/secret.pem'],
  ['OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY', '/nonexistent/secret.pem'],
  ['OTEL_TRACES_SAMPLER', 'secret_sampler'],
  ['OTEL_TRACES_SAMPLER_ARG', '1.1'],
  ['OTEL_TRACES_SAMPLER_ARG', '-0.1'],
  ['OTEL_TRACES_SAMPLER_ARG', 'half'],
  ['OTEL_BSP_MAX_QUEUE_SIZE', '0'],
  ['OTEL_BSP_MAX_EXPORT_BATCH_SIZE', '1.5'],
  ['OTEL_BSP_SCHEDULE_DELAY', '5s'],
  ['OTEL_BSP_EXPORT_TIMEOUT', '3000000000'],
])('%s=%s is refused by its name, without its value', (variable, value) => {
  const env = { ...endpoint, OTEL_TRACES_SAMPLER: 'traceidratio', [variable]: value };
  const read = () => readTraceSettings(env);
  expect(read).toThrow(variable);
  expect(read).not.toThrow(/secret/);
});

test('a batch is no larger than the queue', () => {
  const { queue } = readTraceSettings({ ...endpoint, OTEL_BSP_MAX_QUEUE_SIZE: '60' }) ?? {};
  expect(queue).toMatchObject({ maxQueueSize: 60, maxExportBatchSize: 60 });
});
