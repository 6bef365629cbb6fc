/**
 * The gateway's metering, wired: outbox and publisher towards the usage log, the totals back from it, and the meter
 * between them. It opens without the log, from what the data folder knows, and catches up when the log can be reached.
 */
import { join } from 'node:path';
import type { Logger } from '../../shared/process/logger.ts';
import { followUsage, openUsageStoreIn, usageLogAt } from '../../shared/usage/open-usage.ts';
import { Meter } from './meter.ts';
import { openOutbox } from './outbox.ts';
import { Publisher } from './publisher.ts';

/** How long opening waits for the totals to reach the end of the log. */
const catchUpMs = 3_000;
/** How long closing waits for the log to take the last rows; what is left goes out at the next start. */
const shipRestMs = 2_000;

export interface OpenMeterOptions {
  readonly logUrl: string;
  /** The folder of `outbox.db` and `usage.db`. */
  readonly dataDir: string;
  readonly lookup: { usageAdjustment(organisation: string, period: string): number };
  readonly logger: Logger;
}

export interface OpenedMeter {
  readonly meter: Meter;
  /** Ships what is left, for two seconds at most, and closes all. */
  close(): Promise<void>;
}

/** Rejects with the errors of shared/sqlite.ts, and LogUrlInvalid. */
export async function openMeter(options: OpenMeterOptions): Promise<OpenedMeter> {
  const { logUrl, dataDir, lookup, logger } = options;
  const address = usageLogAt(logUrl);
  const outbox = openOutbox({
    path: join(dataDir, 'outbox.db'),
    onError: (error) => logger.error({ err: error }, 'usage could not be kept'),
  });
  const store = openUsageStoreIn(dataDir, { rebuild: true });
  const adjustmentOf = lookup.usageAdjustment.bind(lookup);
  const meter = new Meter({ outbox, store, adjustmentOf });
  const followed = followUsage({ store, logUrl, logger, onApplied: (applied) => meter.applied(applied) });
  const publisher = new Publisher({
    outbox,
    ...address,
    onReach: (reachable, error) =>
      logger.warn({ reachable, reason: error?.message }, 'shipping of usage to the log'),
  });
  publisher.start();
  if (!(await followed.replicator.caughtUp(catchUpMs)))
    logger.warn('allowances are counted from what is known here until the usage log is read to its end');
  const close = async () => {
    await publisher.stop(shipRestMs);
    await followed.close();
    outbox.close();
  };
  return { meter, close };
}
