/** The parts of a gateway that handling a request needs. */
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
  /** Salts for the prompt caches of the pool's nodes, by organisation. Undefined if this gateway sends no salts. */
  readonly cacheSalts: TenantSecrets | undefined;
  /** Keys for encrypting the reasoning that clients store between turns, by organisation. */
  readonly sealKeys: TenantSecrets;
  readonly meter: Meter;
  readonly countTokens: PromptCounter;
  readonly logger: Logger;
  /** Whether all keys must be refused, because the snapshot may be out of date. Called several times during a request. */
  fenced(): boolean;
  /** Waits a limited time for new proof that the snapshot is up to date. Returns undefined if waiting cannot help. */
  awaitFreshProof(): Promise<void> | undefined;
  /** Wall-clock time in ms since 1970. Decides whether a key has expired. */
  now(): number;
  /** Time by the log's clock, in ms since 1970. Determines billing periods, visitors' days and months, and rows' times. */
  logNow(): number;
  /** Trace of a request, from its `traceparent` header. Undefined if the request is not traced. */
  trace(header: unknown): RequestTrace | undefined;
  begin(): void;
  /** Called when a request ends, for metrics and records. */
  observe(record: RequestRecord): void;
  /** Called for a request that was refused before it could be handled. The journal and traffic reports include it. */
  observeEarly(refused: EarlyRefusal): void;
}
