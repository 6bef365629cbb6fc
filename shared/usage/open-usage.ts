/**
 * Opens the usage totals of a process: `usage.db` in its data folder, kept at the end of the usage log.
 * The log need not be reachable at the opening: the fold continues from the position in the file.
 */
import { join } from 'node:path';
import { usageKeepSeconds, usageTopic } from '../../schemas/usage.ts';
import { RecordMac } from '../log/core/record-mac.ts';
import type { LineLogger } from '../runtime/logger.ts';
import { RateLimitedLine } from '../runtime/rate-limited-line.ts';
import { sleep } from '../runtime/retry.ts';
import { UsageFile } from './usage-file.ts';
import type { FoldCounts } from './usage-fold.ts';
import { usageLogAt } from './usage-log.ts';
import { UsageReplicator } from './usage-replicator.ts';
import {
  type AppliedUsage,
  openUsageStore,
  type UsageReader,
  type UsageStore,
  type UsageStoreOptions,
} from './usage-store.ts';

const usageFileName = 'usage.db';
/** How often visitors are removed whose last turn is older than the log's retention; a returning one starts from zero. */
const removeIntervalMs = 10 * 60_000;
/** Between two slices of rows that an earlier build kept, so that they take no more than half of the event loop. */
const sliceEveryMs = 5;
/** Results that are always errors: two writers of one incarnation, usage that is not billed, or records of nobody known. */
const alarming = ['differing', 'lost', 'unread', 'junk', 'unsigned', 'wrong_mac'] as const;

function removeOld(store: UsageStore, logger: LineLogger): void {
  try {
    const nowMs = Date.now();
    store.removeVisitors(nowMs - usageKeepSeconds * 1000);
    store.removeKeyHours(nowMs);
  } catch (error) {
    logger.warn({ err: error }, 'old visitors could not be removed');
  }
}

/** Ends once all are counted, or with the signal; what it left, the next start counts. */
async function countEarlierUses(store: UsageStore, logger: LineLogger, signal: AbortSignal): Promise<void> {
  try {
    while (!signal.aborted && store.countEarlierUses()) await sleep(sliceEveryMs, signal);
  } catch (error) {
    logger.warn({ err: error }, 'uses of keys before the upgrade could not be counted');
  }
}

/** The totals of a data folder. Throws the errors of shared/runtime/sqlite.ts. */
function openUsageStoreIn(dataDir: string, options: UsageStoreOptions): UsageStore {
  return openUsageStore(join(dataDir, usageFileName), options);
}

export interface OpenUsageOptions extends Omit<UsageStoreOptions, 'mac' | 'partitions'> {
  readonly logUrl: string;
  /** The folder of `usage.db`. */
  readonly dataDir: string;
  /** The first is the present one; records of the others count too, during a rotation. */
  readonly tokens: readonly [string, ...string[]];
  readonly logger: LineLogger;
  /** Called in the turn of the event loop in which the store applied the rows. */
  readonly onApplied?: (applied: AppliedUsage) => void;
}

export interface OpenedUsage {
  readonly reader: UsageReader;
  readonly file: UsageFile;
  readonly replicator: UsageReplicator;
  readonly counts: Readonly<FoldCounts>;
  close(): Promise<void>;
}

/** Opens the totals for reading and begins to tail. Rejects with the errors of shared/runtime/sqlite.ts, and LogUrlInvalid. */
export async function openUsage(options: OpenUsageOptions): Promise<OpenedUsage> {
  const { logger, logUrl, dataDir, tokens, onApplied, ...storeOptions } = options;
  const address = usageLogAt(logUrl);
  const { partitions } = address;
  const mac = new RecordMac(usageTopic, ...tokens);
  const file = new UsageFile(join(dataDir, usageFileName), logger);
  const onUnreadable = file.noteUnreadable.bind(file);
  const store = openUsageStoreIn(dataDir, { ...storeOptions, onUnreadable, partitions, mac });
  const alarms = new RateLimitedLine((rows) =>
    logger.error({ rows }, 'usage rows differ from the rows they repeat, or are not counted'),
  );
  let before = { ...store.counts };
  const replicator = new UsageReplicator({
    store,
    ...address,
    onApplied: (applied) => {
      for (const outcome of alarming)
        if (store.counts[outcome] > before[outcome])
          alarms.add(outcome, store.counts[outcome] - before[outcome]);
      before = { ...store.counts };
      for (const { incarnation, next } of applied.gaps)
        logger.error(
          { incarnation, next },
          'usage rows are missing; later rows of the incarnation are parked',
        );
      onApplied?.(applied);
    },
    onReachabilityChange: (reachable, error) =>
      logger.warn({ reachable, reason: error?.message }, 'usage log'),
    onFault: (error) => logger.fatal({ err: error }, 'usage.db is damaged; no more usage is folded'),
  });
  replicator.start();
  const timer = setInterval(() => removeOld(store, logger), removeIntervalMs).unref();
  const closing = new AbortController();
  const counting = countEarlierUses(store, logger, closing.signal);
  file.start();
  const close = async () => {
    closing.abort();
    await Promise.all([file.close(), counting]);
    clearInterval(timer);
    alarms.close();
    await replicator.stop();
    store.close();
  };
  return { reader: store, file, replicator, counts: store.counts, close };
}
