/**
 * Updates the traffic metrics of a gateway. The folder `data-plane/telemetry` exports metrics, spans and traffic reports, and
 * drains a gateway before it stops. It must not delay requests. The number of labels is bounded: only models in the catalog
 * are named, and keys, organisations and request ids are never labels.
 */
import { Counter, type Registry } from 'prom-client';
import type { Refusal } from '../../shared/decision/refusal.ts';
import { Distribution, type Observations } from '../../shared/runtime/distribution.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { ObservedMetrics } from '../../shared/runtime/observed-metrics.ts';
import { outcomeOf, type RequestRecord } from '../request/request-record.ts';
import { type AffinityChoices, AffinityMetrics } from './affinity-metrics.ts';
import { ClampedUsage } from './clamped-usage.ts';
import { PhaseMetrics } from './phase-metrics.ts';
import { RecentTexts } from './recent-texts.ts';

const durationBuckets = [
  0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
];
const firstTokenBuckets = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10,
];
const tokenBuckets = [
  1, 4, 16, 64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216, 67_108_864,
];

export interface TelemetrySources {
  /** Whether the model is in the catalog, so that its name may be used as a label. */
  isCatalogued(model: string): boolean;
  inFlightUnits(): number;
  openStreams(): number;
  outboxRows(): number;
  /** State of request bodies: the number of bytes held in memory, and the number of bodies that wait for memory. */
  readonly bodies: { readonly usedBytes: number; readonly waiting: number };
  readonly logger: Pick<Logger, 'warn'>;
  affinityChoices(): AffinityChoices;
}

/** Counts of all requests that have the same labels. */
interface Series {
  readonly labels: Readonly<Record<'host_kind' | 'operation' | 'model' | 'outcome', string>>;
  requests: number;
  readonly durations: Observations;
  readonly firstTokens: Observations;
  readonly inputTokens: Observations;
  readonly outputTokens: Observations;
}

export class Telemetry {
  readonly clampedUsage: ClampedUsage;
  /** Recent responses with an unusual form, each described by node, model and form. */
  readonly oddForms = new RecentTexts();
  readonly #sources: TelemetrySources;
  readonly #series = new Map<string, Series>();
  readonly #refusals: Counter;
  readonly #affinity: AffinityMetrics;
  readonly #aborts: Counter;
  readonly #tokens: Distribution;
  readonly #durations: Distribution;
  readonly #firstTokens: Distribution;
  readonly #phases: PhaseMetrics;

  constructor(registry: Registry, sources: TelemetrySources) {
    const registers = [registry];
    this.#sources = sources;
    this.clampedUsage = new ClampedUsage(registry, sources.logger);
    const series = this.#series;
    new Counter({
      name: 'headgate_requests_total',
      help: 'requests by outcome: ok, aborted, or the type of refusal',
      labelNames: ['host_kind', 'operation', 'model', 'outcome'],
      registers,
      collect() {
        this.reset();
        for (const { labels, requests } of series.values()) this.inc(labels, requests);
      },
    });
    this.#affinity = new AffinityMetrics(registry, () => sources.affinityChoices());
    this.#refusals = new Counter({
      name: 'headgate_refusals_total',
      help: 'refusals by type and cause',
      labelNames: ['type', 'cause'],
      registers,
    });
    this.#aborts = new Counter({
      name: 'headgate_stream_aborts_total',
      help: 'answers that had started and ended early, by who ended them',
      labelNames: ['who'],
      registers,
    });
    this.#tokens = new Distribution({
      name: 'gen_ai_client_token_usage',
      help: 'billable tokens of completed requests',
      bounds: tokenBuckets,
      registry,
    });
    this.#durations = new Distribution({
      name: 'gen_ai_server_request_duration_seconds',
      help: 'time from the request line to the end of the answer',
      bounds: durationBuckets,
      registry,
    });
    this.#firstTokens = new Distribution({
      name: 'gen_ai_server_time_to_first_token_seconds',
      help: 'time from the request line to the first event, for streams',
      bounds: firstTokenBuckets,
      registry,
    });
    this.#phases = new PhaseMetrics(registry);
    const metrics = new ObservedMetrics(registry);
    metrics.gauge('headgate_streams_open', 'open streams', () => sources.openStreams());
    metrics.gauge('headgate_limiter_in_flight_units', 'sum of the weights of requests in flight', () =>
      sources.inFlightUnits(),
    );
    metrics.gauge('headgate_outbox_rows', 'usage rows that were not published yet', () =>
      sources.outboxRows(),
    );
    metrics.gauge(
      'headgate_request_body_bytes',
      'memory reserved for request bodies, until a node has them',
      () => sources.bodies.usedBytes,
    );
    metrics.gauge(
      'headgate_request_bodies_waiting',
      'request bodies not read yet, because the share of their organisation is full',
      () => sources.bodies.waiting,
    );
  }

  /** Counts a request that has just ended. Returns the current monotonic time in ms. */
  observe(record: RequestRecord): number {
    const { refusal, outcome } = record;
    const operation = record.operation?.kind ?? 'none';
    const model =
      record.model !== undefined && this.#sources.isCatalogued(record.model) ? record.model : 'other';
    const isEnded = outcomeOf(record) === 'ended';
    const result = refusal?.type ?? (isEnded ? 'aborted' : 'ok');
    const endMs = performance.now();
    const seconds = (endMs - record.startMs) / 1000;
    const series = this.#findSeries(record.target?.kind ?? 'none', operation, model, result);
    series.requests++;
    if (refusal) this.#refusals.inc({ type: refusal.type, cause: causeLabel(refusal) });
    if (outcome?.kind === 'ended-early' && record.at.begun !== undefined)
      this.#aborts.inc({ who: outcome.by });
    if (outcome?.node) series.durations.observe(seconds);
    if (outcome?.kind === 'completed') {
      series.inputTokens.observe(outcome.usage.promptTokens);
      series.outputTokens.observe(outcome.usage.completionTokens);
      this.#affinity.observe(model, outcome.usage);
      this.clampedUsage.observe(outcome);
    }
    if (record.oddForm !== undefined) this.oddForms.add(record.oddForm);
    if (record.stream && record.at.begun !== undefined)
      series.firstTokens.observe((record.at.begun - record.startMs) / 1000);
    this.#phases.observe(record);
    return endMs;
  }

  #findSeries(hostKind: string, operation: string, model: string, outcome: string): Series {
    const key = `${hostKind} ${operation} ${outcome} ${model}`;
    const known = this.#series.get(key);
    if (known !== undefined) return known;
    const series = {
      labels: { host_kind: hostKind, operation, model, outcome },
      requests: 0,
      durations: this.#durations.series({
        gen_ai_operation_name: operation,
        gen_ai_request_model: model,
        error_type: outcome === 'aborted' ? 'aborted' : '',
      }),
      firstTokens: this.#firstTokens.series({ model }),
      inputTokens: this.#tokens.series({ gen_ai_token_type: 'input', model }),
      outputTokens: this.#tokens.series({ gen_ai_token_type: 'output', model }),
    };
    this.#series.set(key, series);
    return series;
  }
}

/** Label for the cause of a refusal. Causes in this project's code are short, so a long text is not used as a label. */
function causeLabel(refusal: Refusal): string {
  return refusal.reason.length <= 40 ? refusal.reason : 'other';
}
