/** Opens the usage totals in `usage.db` and keeps them up to date with the usage log, which may be unreachable at first. */
import { join } from 'node:path';
import { usageKeepDaysDefault, usageTopic } from '../../schemas/records/usage.ts';
import { RecordMac } from '../../shared/log/core/record-mac.ts';
import type { LineLogger } from '../../shared/runtime/logger.ts';
import { RateLimitedLine } from '../../shared/runtime/rate-limited-line.ts';
import { usageLogAddress } from '../../shared/usage/usage-log.ts';
import { RowMover } from './row-mover.ts';
import { UsageFile } from './usage-file.ts';
import type { FoldCounts } from './usage-fold.ts';
import { UsageReplicator } from './usage-replicator.ts';
import {
  type AppliedUsage,
  openUsageStore,
  type UsageReader,
  type UsageStoreOptions,
} from './usage-store.ts';

const usageFileName = 'usage.db';
/** Fold results that are always errors: two writers for one incarnation, unbilled usage, or unauthenticated records. */
const alarming = ['differing', 'lost', 'unread', 'junk', 'unsigned', 'wrong_mac'] as const;

export interface OpenUsageOptions extends Omit<UsageStoreOptions, 'mac' | 'partitions'> {
  readonly logUrl: string;
  /** Folder that contains `usage.db`. */
  readonly dataDir: string;
  /** Gateway tokens, the current one first. During a rotation, records signed with the others also count. */
  readonly tokens: readonly [string, ...string[]];
  /** Number of days for which completed requests are kept. */
  readonly usageKeepDays?: number | undefined;
  readonly logger: LineLogger<'info' | 'warn' | 'error' | 'fatal'>;
}

export interface OpenedUsage {
  readonly reader: UsageReader;
  readonly file: UsageFile;
  readonly replicator: UsageReplicator;
  readonly counts: Readonly<FoldCounts>;
  /** Starts reading the usage log. `onApplied` is called synchronously after the store has applied rows. */
  start(onApplied?: (applied: AppliedUsage) => void): void;
  close(): Promise<void>;
}

/** Opens the totals for reading. Rejects with `LogUrlInvalid` and the errors from `shared/runtime/sqlite.ts`. */
export async function openUsage(options: OpenUsageOptions): Promise<OpenedUsage> {
  const { logger, logUrl, dataDir, tokens, usageKeepDays, ...storeOptions } = options;
  const address = usageLogAddress(logUrl);
  const { partitions } = address;
  const mac = new RecordMac(usageTopic, ...tokens);
  const path = join(dataDir, usageFileName);
  const file = new UsageFile(path, logger);
  const onUnreadable = file.noteUnreadable.bind(file);
  const store = openUsageStore(path, { ...storeOptions, onUnreadable, partitions, mac });
  const alarms = new RateLimitedLine((rows) =>
    logger.error({ rows }, 'usage rows differ from the rows they repeat, or are not counted'),
  );
  const listeners: ((applied: AppliedUsage) => void)[] = [];
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
          'usage rows are missing; later rows of the incarnation wait for them',
        );
      for (const listener of listeners) listener(applied);
    },
    onReachabilityChange: (reachable, error) =>
      logger.warn({ reachable, reason: error?.message }, 'reachability of the usage log'),
    onFault: (error) => logger.fatal({ err: error }, 'usage.db is damaged; no more usage is folded'),
  });
  const mover = new RowMover({
    ...{ rows: store.rows, path, logger },
    keepDays: usageKeepDays ?? usageKeepDaysDefault,
  });
  const start: OpenedUsage['start'] = (onApplied) => {
    if (onApplied) listeners.push(onApplied);
    replicator.start();
    mover.start();
    file.start();
  };
  const close = async () => {
    await Promise.all([file.close(), mover.close()]);
    alarms.close();
    await replicator.stop();
    store.close();
  };
  return { reader: store, file, replicator, counts: store.counts, start, close };
}
