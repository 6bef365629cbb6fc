/**
 * Exports the spans of requests over OTLP/HTTP, if `OTEL_EXPORTER_OTLP_ENDPOINT` or its variant for traces is set. Otherwise,
 * no OpenTelemetry package is loaded. These packages read most of their variables themselves. Spans wait in a bounded queue
 * and are dropped if it is full, so a receiver that hangs never delays a request.
 */
import type { Context, HrTime, SpanContext, Tracer } from '@opentelemetry/api';
import type { ReadableSpan, SpanExporter } from '@opentelemetry/sdk-trace';
import { Counter, type Registry } from 'prom-client';
import type { RecordedRequest } from '../../schemas/records/request-record.ts';
import type { Closers } from '../../shared/runtime/closers.ts';
import type { LineLogger } from '../../shared/runtime/logger.ts';
import { within } from '../../shared/runtime/retry.ts';
import { type Environment, environment } from '../../shared/runtime/settings.ts';
import { version } from '../../shared/runtime/version.ts';
import type { RequestRecord } from '../request/request-record.ts';
import { beginTrace, type RequestTrace, type SpanIds } from '../surfaces/common/trace-context.ts';
import { type PlannedSpan, planSpans } from './request-spans.ts';
import { findBlankEndpoint, readTraceSettings } from './trace-settings.ts';

const closeTimeoutMs = 2000;

export interface TraceExport {
  /** Begins the trace of a request, from its `traceparent` header. */
  begin(header: unknown): RequestTrace;
  /** Ends the trace of a request. `endMs` is monotonic. */
  end(record: RequestRecord, recorded: RecordedRequest, endMs: number): void;
}

interface Options extends WatchOptions {
  readonly name: string;
  /** Runs tasks when the process stops. The spans that are still waiting are then sent, for at most two seconds. */
  readonly closers: Closers;
}

/** Opens the export of traces. Returns undefined if no endpoint is set. Throws if a setting is invalid. */
export async function openTraceExport(
  options: Options,
  env: Environment = environment,
): Promise<TraceExport | undefined> {
  const found = readTraceSettings(env);
  const variable = findBlankEndpoint(env);
  if (found === undefined && variable !== undefined)
    options.logger.warn({ variable }, 'no traces are sent, because the address of the receiver is empty');
  if (found === undefined) return undefined;
  const { ratio, followsClient, queue } = found;
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
    spanProcessors: [
      new sdk.BatchSpanProcessor({ exporter: watched(new OTLPTraceExporter(), options), ...queue }),
    ],
  });
  const writer = new SpanWriter(api, provider.getTracer('headgate', version()), ids);
  const shutdown = () => provider.shutdown().catch(() => undefined);
  options.closers.add(() => within(shutdown(), closeTimeoutMs));
  return {
    begin: (header) => beginTrace(header, ratio, followsClient),
    end: (record, recorded, endMs) => {
      const spans = record.trace?.spans;
      if (spans !== undefined) writer.write(spans, planSpans(record, recorded, endMs));
    },
  };
}

/** Id generator that returns ids that a node has already received, because spans are created after their request. */
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

/** Time since 1970 as seconds and nanoseconds. OpenTelemetry could take a plain number for a monotonic time. */
function wallTime(monotonicMs: number): HrTime {
  const ms = performance.timeOrigin + monotonicMs;
  const seconds = Math.floor(ms / 1000);
  return [seconds, Math.min(Math.round((ms - seconds * 1000) * 1e6), 999_999_999)];
}

interface WatchOptions {
  readonly registry: Registry;
  readonly logger: LineLogger;
}

/** Maximum length of a reason in a log line, because a collector's reason may have any length. */
const reasonLengthMax = 200;

function watched(inner: SpanExporter, { registry, logger }: WatchOptions): SpanExporter {
  const spans = new Counter({
    name: 'headgate_trace_spans_total',
    help: 'spans that the receiver accepted (sent) or that were lost (failed)',
    labelNames: ['outcome'],
    registers: [registry],
  });
  for (const outcome of ['sent', 'failed']) spans.inc({ outcome }, 0);
  let reachable = true;
  const note = (count: number, error: Error | undefined): void => {
    spans.inc({ outcome: error === undefined ? 'sent' : 'failed' }, count);
    if (reachable === (error === undefined)) return;
    reachable = error === undefined;
    logger.warn(
      { reachable, reason: error?.message.slice(0, reasonLengthMax) },
      'reachability of the trace receiver',
    );
  };
  return {
    export: (batch: ReadableSpan[], done) =>
      inner.export(batch, (result) => {
        const isSent = result.code === 0;
        note(batch.length, isSent ? undefined : (result.error ?? new Error('not sent')));
        done(result);
      }),
    forceFlush: async () => await inner.forceFlush?.(),
    shutdown: () => inner.shutdown(),
  };
}
