/**
 * An exporter of spans whose outcomes are counted and, once per change, logged: a collector that is away or refuses its
 * credentials would otherwise show as a trace that is missing.
 */
import type { ReadableSpan, SpanExporter } from '@opentelemetry/sdk-trace';
import { Counter, type Registry } from 'prom-client';
import type { LineLogger } from '../../shared/runtime/logger.ts';

export interface WatchOptions {
  readonly registry: Registry;
  readonly logger: LineLogger;
}

/** A collector's own words, of any length. */
const reasonLengthMax = 200;

export function watched(inner: SpanExporter, { registry, logger }: WatchOptions): SpanExporter {
  const spans = new Counter({
    name: 'headgate_trace_spans_total',
    help: 'spans that the receiver took (sent) or that were lost because it did not (failed)',
    labelNames: ['outcome'],
    registers: [registry],
  });
  for (const outcome of ['sent', 'failed']) spans.inc({ outcome }, 0);
  let reachable = true;
  const note = (count: number, error: Error | undefined): void => {
    spans.inc({ outcome: error === undefined ? 'sent' : 'failed' }, count);
    if (reachable === (error === undefined)) return;
    reachable = error === undefined;
    logger.warn({ reachable, reason: error?.message.slice(0, reasonLengthMax) }, 'trace receiver');
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
