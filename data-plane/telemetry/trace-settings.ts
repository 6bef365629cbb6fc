/**
 * Reads the OpenTelemetry variables that this process handles itself. Refuses values that cannot be used, because
 * OpenTelemetry's packages would silently replace them. An error names the variable but not its value, which may contain a
 * password.
 */
import { accessSync, constants } from 'node:fs';
import { type Environment, readSetting } from '../../shared/runtime/settings.ts';

export interface TraceSettings {
  /** Fraction of requests to record, among those that arrive without a trace of the client. */
  readonly ratio: number;
  /** Whether a request with a trace of the client is recorded if, and only if, the client records that trace. */
  readonly followsClient: boolean;
  readonly queue: {
    readonly maxQueueSize: number;
    readonly maxExportBatchSize: number;
    readonly scheduledDelayMillis: number;
    readonly exportTimeoutMillis: number;
  };
}

class TraceSettingInvalid extends Error {
  override readonly name = 'TraceSettingInvalid';
}

const endpointVariables = ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', 'OTEL_EXPORTER_OTLP_ENDPOINT'];

/** Name of an endpoint variable that is set but empty. OpenTelemetry ignores it, although someone may expect traces. */
export function findBlankEndpoint(env: Environment): string | undefined {
  return isOff(env) ? undefined : endpointVariables.find((variable) => env[variable]?.trim() === '');
}

function isOff(env: Environment): boolean {
  const isDisabled = readSetting('OTEL_SDK_DISABLED', env)?.toLowerCase() === 'true';
  return isDisabled || readSetting('OTEL_TRACES_EXPORTER', env) === 'none';
}

/** Settings for traces, or undefined if no endpoint is set or traces are off. Throws `TraceSettingInvalid`. */
export function readTraceSettings(env: Environment): TraceSettings | undefined {
  const endpoints = endpointVariables.filter((variable) => readSetting(variable, env) !== undefined);
  if (endpoints.length === 0 || isOff(env)) return undefined;
  for (const variable of endpoints) checkUrl(variable, env);
  for (const variable of ofExporter('PROTOCOL'))
    if (readSetting(variable, env) === 'grpc')
      throw new TraceSettingInvalid(`${variable} must be http/json or unset, because grpc is not supported`);
  for (const part of ['CERTIFICATE', 'CLIENT_CERTIFICATE', 'CLIENT_KEY'])
    for (const variable of ofExporter(part)) checkReadable(variable, env);
  return { ...readSampler(env), queue: readQueue(env) };
}

function ofExporter(part: string): string[] {
  return [`OTEL_EXPORTER_OTLP_TRACES_${part}`, `OTEL_EXPORTER_OTLP_${part}`];
}

function checkUrl(variable: string, env: Environment): void {
  const text = readSetting(variable, env) ?? '';
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol === 'http:' || url?.protocol === 'https:') return;
  throw new TraceSettingInvalid(`${variable} is not an address; it must begin with http:// or https://`);
}

function checkReadable(variable: string, env: Environment): void {
  const path = readSetting(variable, env);
  if (path === undefined) return;
  try {
    accessSync(path, constants.R_OK);
  } catch (error) {
    throw new TraceSettingInvalid(`the file of ${variable} cannot be read`, { cause: error });
  }
}

const samplers = /^(parentbased_)?(always_on|always_off|traceidratio)$/;

function readSampler(env: Environment): Pick<TraceSettings, 'ratio' | 'followsClient'> {
  const text = readSetting('OTEL_TRACES_SAMPLER', env) ?? 'parentbased_always_on';
  const [, parent, kind] = samplers.exec(text) ?? [];
  if (kind === undefined)
    throw new TraceSettingInvalid(
      'OTEL_TRACES_SAMPLER is unknown; use always_on, always_off or traceidratio, also with the prefix parentbased_',
    );
  const followsClient = parent !== undefined;
  if (kind !== 'traceidratio') return { ratio: kind === 'always_on' ? 1 : 0, followsClient };
  const ratio = Number(readSetting('OTEL_TRACES_SAMPLER_ARG', env) ?? 1);
  if (ratio >= 0 && ratio <= 1) return { ratio, followsClient };
  throw new TraceSettingInvalid('OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1');
}

function readQueue(env: Environment): TraceSettings['queue'] {
  const number = (variable: string, fallback: number): number => {
    const found = Number(readSetting(variable, env) ?? fallback);
    // Refuse longer delays: a timer with more than 31 bits would fire at once.
    if (Number.isSafeInteger(found) && found > 0 && found < 2 ** 31) return found;
    throw new TraceSettingInvalid(`${variable} must be a whole number above 0`);
  };
  const maxQueueSize = number('OTEL_BSP_MAX_QUEUE_SIZE', 2048);
  return {
    maxQueueSize,
    maxExportBatchSize: Math.min(number('OTEL_BSP_MAX_EXPORT_BATCH_SIZE', 512), maxQueueSize),
    scheduledDelayMillis: number('OTEL_BSP_SCHEDULE_DELAY', 5000),
    exportTimeoutMillis: number('OTEL_BSP_EXPORT_TIMEOUT', 30_000),
  };
}
