/** What the gateway gives each of its requests to work with. */
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
  /** For requests to the pool; undefined where they go without. */
  readonly cacheSalts: TenantSecrets | undefined;
  /** Under which thoughts are sealed for the client that keeps them. */
  readonly sealKeys: TenantSecrets;
  readonly meter: Meter;
  readonly countTokens: PromptCounter;
  readonly logger: Logger;
  /** May no key be accepted, because the snapshot cannot be proven fresh enough? Checked within each request. */
  fenced(): boolean;
  /** Waits a bounded time for a new proof that the snapshot is fresh; undefined if waiting cannot help. */
  awaitFreshProof(): Promise<void> | undefined;
  /** Wall clock, ms since 1970: decides whether a key has expired. */
  now(): number;
  /** Time of the log, ms since 1970. Periods, a visitor's days and months, and usage rows follow it. */
  logNow(): number;
  /** The trace of a request, from its `traceparent` header; undefined where it has none. */
  trace(header: unknown): RequestTrace | undefined;
  /** Called at the start of each request. */
  begin(): void;
  /** Called at the end of each request, for metrics and the access log. */
  observe(record: RequestRecord): void;
  /** For the decision journal alone. */
  observeEarly(refused: EarlyRefusal): void;
}
