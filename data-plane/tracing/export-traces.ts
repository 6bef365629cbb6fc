/**
 * Sends the spans of requests over OTLP/HTTP, where OTEL_EXPORTER_OTLP_ENDPOINT (or its form for traces) is set; otherwise
 * none of its packages is loaded. Spans wait in a bounded queue, and those that do not fit are dropped: a receiver that hangs
 * costs no request. The packages read the variables of the exporter and of the resource themselves.
 */
import type { Context, HrTime, SpanContext, Tracer } from '@opentelemetry/api';
import type { Closers } from '../../shared/runtime/closers.ts';
import { type Environment, environment, settingOf } from '../../shared/runtime/settings.ts';
import { version } from '../../shared/runtime/version.ts';
import { beginTrace, type RequestTrace, type SpanIds } from '../core/trace-context.ts';
import type { RequestRecord } from '../request/gateway.ts';
import { type PlannedSpan, spansOf } from './request-spans.ts';

const closeTimeoutMs = 2000;

export interface TraceExport {
  /** At the start of a request, with its `traceparent` header. */
  begin(header: unknown): RequestTrace;
  /** At its end. */
  end(record: RequestRecord): void;
}

interface Options {
  /** Of the gateway. */
  readonly name: string;
  readonly isKnown: (model: string) => boolean;
  /** At the end what waits is sent, for two seconds at most. */
  readonly closers: Closers;
}

/** Undefined where no endpoint is set. */
export async function openTraceExport(
  options: Options,
  env: Environment = environment,
): Promise<TraceExport | undefined> {
  const endpoint =
    settingOf('OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', env) ?? settingOf('OTEL_EXPORTER_OTLP_ENDPOINT', env);
  const isOff =
    settingOf('OTEL_SDK_DISABLED', env)?.toLowerCase() === 'true' ||
    settingOf('OTEL_TRACES_EXPORTER', env) === 'none';
  if (endpoint === undefined || isOff) return undefined;
  const [api, sdk, resources, { OTLPTraceExporter }] = await Promise.all([
    import('@opentelemetry/api'),
    import('@opentelemetry/sdk-trace'),
    import('@opentelemetry/resources'),
    import('@opentelemetry/exporter-trace-otlp-http'),
  ]);
  const own = resources.resourceFromAttributes({
    'service.name': 'headgate-gateway',
    'service.instance.id': options.name,
    'service.version': version(),
  });
  const ids = new PlannedIds();
  const provider = new sdk.TracerProvider({
    idGenerator: ids,
    sampler: new sdk.AlwaysOnSampler(),
    resource: own.merge(resources.detectResources({ detectors: [resources.envDetector] })),
    spanProcessors: [new sdk.BatchSpanProcessor({ exporter: new OTLPTraceExporter(), ...queueFrom(env) })],
  });
  const writer = new SpanWriter(api, provider.getTracer('headgate', version()), ids);
  const ratio = ratioOf(env);
  const followsClient = /^(?:parentbased_|$)/.test(settingOf('OTEL_TRACES_SAMPLER', env) ?? '');
  options.closers.add(() => withinTime(provider.shutdown()));
  return {
    begin: (header) => beginTrace(header, ratio, followsClient),
    end: (record) => {
      const spans = record.trace?.spans;
      if (spans !== undefined) writer.write(spans, spansOf(record, performance.now(), options.isKnown));
    },
  };
}

/** The packages have no reader of these variables. */
function queueFrom(env: Environment) {
  const number = (variable: string, fallback: number): number => {
    const found = Number(settingOf(variable, env) ?? fallback);
    return Number.isSafeInteger(found) && found > 0 ? found : fallback;
  };
  const maxQueueSize = number('OTEL_BSP_MAX_QUEUE_SIZE', 2048);
  return {
    maxQueueSize,
    maxExportBatchSize: Math.min(number('OTEL_BSP_MAX_EXPORT_BATCH_SIZE', 512), maxQueueSize),
    scheduledDelayMillis: number('OTEL_BSP_SCHEDULE_DELAY', 5000),
    exportTimeoutMillis: number('OTEL_BSP_EXPORT_TIMEOUT', 30_000),
  };
}

function ratioOf(env: Environment): number {
  const sampler = settingOf('OTEL_TRACES_SAMPLER', env) ?? '';
  if (sampler.endsWith('always_off')) return 0;
  const ratio = Number(settingOf('OTEL_TRACES_SAMPLER_ARG', env) ?? 1);
  return sampler.endsWith('traceidratio') && ratio >= 0 && ratio <= 1 ? ratio : 1;
}

/** The ids were given to the node before the span could be made, so that the span must take them. */
class PlannedIds {
  traceId = '';
  spanId: string | undefined;

  generateTraceId(): string {
    return this.traceId;
  }

  generateSpanId(): string {
    return this.spanId ?? beginTrace(undefined, 0).traceparent.slice(36, 52);
  }
}

class SpanWriter {
  readonly #api: typeof import('@opentelemetry/api');
  readonly #tracer: Tracer;
  readonly #ids: PlannedIds;

  constructor(api: typeof import('@opentelemetry/api'), tracer: Tracer, ids: PlannedIds) {
    this.#api = api;
    this.#tracer = tracer;
    this.#ids = ids;
  }

  write({ traceId, parentId }: SpanIds, [request, ...phases]: readonly PlannedSpan[]): void {
    if (request === undefined) return;
    const { trace, ROOT_CONTEXT, TraceFlags } = this.#api;
    this.#ids.traceId = traceId;
    const client: SpanContext | undefined =
      parentId === undefined
        ? undefined
        : { traceId, spanId: parentId, traceFlags: TraceFlags.SAMPLED, isRemote: true };
    const parent = client === undefined ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, client);
    const context = this.#span(request, parent);
    for (const phase of phases) this.#span(phase, trace.setSpanContext(ROOT_CONTEXT, context));
  }

  #span(planned: PlannedSpan, parent: Context): SpanContext {
    const { SpanKind, SpanStatusCode } = this.#api;
    const kind = { server: SpanKind.SERVER, internal: SpanKind.INTERNAL, client: SpanKind.CLIENT }[
      planned.kind
    ];
    this.#ids.spanId = planned.id;
    const startTime = wallTime(planned.startMs);
    const { name, attributes } = planned;
    const span = this.#tracer.startSpan(name, { kind, startTime, attributes }, parent);
    if (planned.failed) span.setStatus({ code: SpanStatusCode.ERROR });
    span.end(wallTime(planned.endMs));
    return span.spanContext();
  }
}

/** Seconds and nanoseconds since 1970: a plain number could be taken for a monotonic one. */
function wallTime(monotonicMs: number): HrTime {
  const ms = performance.timeOrigin + monotonicMs;
  const seconds = Math.floor(ms / 1000);
  return [seconds, Math.min(Math.round((ms - seconds * 1000) * 1e6), 999_999_999)];
}

async function withinTime(work: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, closeTimeoutMs);
  });
  await Promise.race([work.catch(() => undefined), late]);
  clearTimeout(timer);
}
