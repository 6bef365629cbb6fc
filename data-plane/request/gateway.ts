/** What a request works with: handed to `handle` by the composition root, and no more than a request may touch. */

import type { HostNames } from '../../shared/decision/host.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { Lookup } from '../../shared/snapshot/lookup.ts';
import type { BodyWorker } from '../body-worker/body-worker.ts';
import type { BodyBudget } from '../core/byte-budget.ts';
import type { ForwardSettings } from '../forward/forward.ts';
import type { PromptCounter } from '../upstream/count-tokens.ts';
import type { NodeLoad } from '../upstream/load.ts';
import type { NodePools } from '../upstream/node-pools.ts';
import type { Meter } from '../usage/meter.ts';
import type { LocalCounters } from './counters.ts';
import type { Exchange } from './exchange.ts';

export interface Gateway {
  readonly hosts: HostNames;
  readonly lookup: Lookup;
  readonly counters: LocalCounters;
  readonly bodies: BodyBudget;
  readonly bodyWorker: BodyWorker;
  readonly pools: NodePools;
  readonly load: NodeLoad;
  readonly meter: Meter;
  readonly forwarding: ForwardSettings;
  readonly countTokens: PromptCounter;
  /** Streams that nodes and clients are busy with now, for metrics. */
  readonly streams: { open: number };
  readonly logger: Logger;
  /** May no key be accepted, because the snapshot cannot be proven fresh enough? Asked within each request. */
  fenced(): boolean;
  /** Wall clock, ms since 1970. */
  now(): number;
  /** Told of every exchange at its beginning. */
  begin(): void;
  /** Told of every exchange at its end, for metrics and the access log. */
  observe(exchange: Exchange): void;
}
