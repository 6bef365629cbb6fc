/** Opens the counters of the fleet on a control plane, with their copy in its data folder and their metrics. */
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { Gauge, type Registry } from 'prom-client';
import { countersTopic } from '../../schemas/limits.ts';
import { openCounterCopy } from '../../shared/limits/counter-copy.ts';
import { measureCounterFeed } from '../../shared/limits/counter-feed.ts';
import { limitTopicAt } from '../../shared/log/limit-topic.ts';
import type { UsageReader } from '../../shared/usage/usage-store.ts';
import { FleetCounters } from './fleet-counters.ts';
import { countedTokens, type FleetSettings } from './open-fleet.ts';

/** Throws the errors of shared/runtime/sqlite.ts. */
export function openFleetCounters(
  settings: FleetSettings,
  usage: UsageReader,
  registry: Registry,
): FleetCounters {
  const { logUrl, dataDir, logger } = settings;
  const topic = limitTopicAt(logUrl, {
    topic: countersTopic,
    tokens: countedTokens(settings),
    onReachabilityChange: (reachable, error) =>
      logger.warn({ reachable, reason: error?.message }, 'counters topic'),
  });
  const copy = openCounterCopy(join(dataDir, 'counters.db'));
  const counters = new FleetCounters({ process: randomUUID(), topic, copy, usage, logger });
  new Gauge({
    name: 'headgate_counters_difference_tokens',
    help: 'tokens by which the counters of the gateways and the folded usage rows differ at rest',
    registers: [registry],
    collect() {
      this.set(counters.differenceTokens);
    },
  });
  measureCounterFeed(registry, () => counters.feed.counts);
  return counters;
}
