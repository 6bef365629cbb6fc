/**
 * The usage totals of a process, wired: `usage.db` in its data folder, kept at the end of the usage log.
 * The log need not be reachable when it is opened: the totals begin where the file left off.
 */
import { join } from 'node:path';
import { usageKeepSeconds, usagePartitions, usageTopic } from '../../schemas/usage.ts';
import type { ControlLog } from '../log/control-log.ts';
import { openLog, parseLogUrl } from '../log/open-log.ts';
import type { Logger } from '../process/logger.ts';
import { UsageReplicator } from './usage-replicator.ts';
import {
  type AppliedUsage,
  openUsageStore,
  type UsageReader,
  type UsageStore,
  type UsageStoreOptions,
} from './usage-store.ts';

/** A visitor who has not come back for as long as the log keeps records begins anew. */
const forgetVisitorsEveryMs = 10 * 60_000;

export interface UsageLogAddress {
  readonly partitions: number;
  readonly open: (partition: number) => Promise<ControlLog>;
}

/** The usage log at the address of the control log. Throws LogUrlInvalid. */
export function usageLogAt(logUrl: string): UsageLogAddress {
  const partitions = parseLogUrl(logUrl).kind === 'kafka' ? usagePartitions : 1;
  const options = { keepSeconds: usageKeepSeconds, allowTrimmed: true };
  return { partitions, open: (partition) => openLog(logUrl, { topic: usageTopic, partition }, options) };
}

export interface OpenUsageOptions extends UsageStoreOptions {
  readonly logUrl: string;
  /** The folder of `usage.db`. */
  readonly dataDir: string;
  readonly logger: Logger;
  readonly onApplied?: (applied: AppliedUsage) => void;
}

export interface OpenedUsage {
  readonly reader: UsageReader;
  readonly store: UsageStore;
  readonly replicator: UsageReplicator;
  close(): Promise<void>;
}

/** Opens the totals and begins to tail. Throws the errors of shared/sqlite.ts, and LogUrlInvalid. */
export async function openUsage(options: OpenUsageOptions): Promise<OpenedUsage> {
  const { logger, logUrl, dataDir, onApplied, ...storeOptions } = options;
  const address = usageLogAt(logUrl);
  const store = openUsageStore(join(dataDir, 'usage.db'), storeOptions);
  const replicator = new UsageReplicator({
    store,
    ...address,
    onApplied: (applied) => {
      for (const { incarnation, next } of applied.gaps)
        logger.error({ incarnation, next }, 'rows of usage are missing; those behind them wait');
      onApplied?.(applied);
    },
    onReach: (reachable, error) => logger.warn({ reachable, reason: error?.message }, 'usage log'),
    onFault: (error) => logger.fatal({ err: error }, 'usage.db is damaged; no more usage is folded'),
  });
  replicator.start();
  const forget = () => {
    try {
      store.forgetVisitors(Date.now() - usageKeepSeconds * 1000);
    } catch (error) {
      logger.warn({ err: error }, 'old visitors were not forgotten');
    }
  };
  const timer = setInterval(forget, forgetVisitorsEveryMs).unref();
  const close = async () => {
    clearInterval(timer);
    await replicator.stop();
    store.close();
  };
  return { reader: store, store, replicator, close };
}
