/** The parts of a gateway that each request uses. */
import type { HostNames } from '../../shared/decision/admission.ts';
import type { BodyBudget } from '../../shared/runtime/byte-budget.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { Lookup } from '../../shared/snapshot/lookup.ts';
import type { EarlyRefusal } from '../http/early-refusal.ts';
import type { Affinity } from '../nodes/affinity.ts';
import type { PromptCounter } from '../nodes/count-tokens.ts';
import type { ForwardMeans } from '../nodes/forward.ts';
import type { TenantSecrets } from '../surfaces/common/tenant-secrets.ts';
import type { RequestTrace } from '../surfaces/common/trace-context.ts';
import type { Meter } from '../usage/meter.ts';
import type { LocalCounters } from './counters.ts';
import type { RequestRecord } from './request-record.ts';

export interface Gateway extends ForwardMeans {
  readonly hosts: HostNames;
  readonly lookup: Lookup;
  readonly counters: LocalCounters;
  readonly bodies: BodyBudget;
  readonly affinity: Affinity;
  /** Salts of requests to the pool; undefined if these requests are sent without a salt. */
  readonly cacheSalts: TenantSecrets | undefined;
  /** Keys with which a model's thoughts are sealed for the client that stores them. */
  readonly sealKeys: TenantSecrets;
  readonly meter: Meter;
  readonly countTokens: PromptCounter;
  readonly logger: Logger;
  /** Whether no key may be accepted, because the snapshot may not be fresh enough. Checked within each request. */
  fenced(): boolean;
  /** Waits a bounded time for a new proof of freshness; undefined if waiting cannot help. */
  awaitFreshProof(): Promise<void> | undefined;
  /** Wall clock in ms since 1970, which decides whether a key has expired. */
  now(): number;
  /** The log's time in ms since 1970. Periods, visitors' days and months, and usage rows follow it. */
  logNow(): number;
  /** Trace of a request, from its `traceparent` header; undefined if it has none. */
  trace(header: unknown): RequestTrace | undefined;
  /** Called at the start of each request. */
  begin(): void;
  /** Called at the end of each request, for metrics and the access log. */
  observe(record: RequestRecord): void;
  /** Called for requests that are refused before they start; only the decision journal and traffic reports use it. */
  observeEarly(refused: EarlyRefusal): void;
}
