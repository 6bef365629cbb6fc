/**
 * Publishes the usage that gateways left in their folders and that are not started any more, because fewer worker processes run now.
 * One after the other, in the background: rows that wait there are billed, whenever the log can be reached.
 */
import { lockDataFolder } from '../../shared/runtime/data-folder.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { sleep } from '../../shared/runtime/retry.ts';
import { openMeter } from './open-meter.ts';
import type { UsageWorkerOptions } from './open-usage-worker.ts';

export interface EndedGateway {
  readonly name: string;
  readonly folder: string;
  /** By the parent of this process. */
  readonly isLocked: boolean;
}

type Settings = Omit<UsageWorkerOptions, 'dataDir' | 'name'> & { readonly logger: Logger };

const lookEveryMs = 250;

export function publishEnded(ended: readonly EndedGateway[], settings: Settings): { stop(): Promise<void> } {
  const stopping = new AbortController();
  const published = publishAll(ended, settings, stopping.signal);
  return {
    stop: () => {
      stopping.abort();
      return published;
    },
  };
}

/** Never rejects: what cannot be published now is there at the next start. */
async function publishAll(
  ended: readonly EndedGateway[],
  settings: Settings,
  stopping: AbortSignal,
): Promise<void> {
  for (const gateway of ended) {
    if (stopping.aborted) return;
    const { name, folder } = gateway;
    try {
      const left = await publishOne(gateway, settings, stopping);
      if (left === 0)
        settings.logger.info({ name, folder }, 'the usage of a gateway that ended is published');
    } catch (error) {
      settings.logger.error(
        { err: error, name, folder },
        'the usage of a gateway that ended is not published',
      );
    }
  }
}

/** Resolves with the rows that are left, once there is none or this is to stop. */
async function publishOne(
  { name, folder, isLocked }: EndedGateway,
  { logUrl, gatewayToken, controlPlanes, logger }: Settings,
  stopping: AbortSignal,
): Promise<number> {
  const lock = isLocked ? undefined : lockDataFolder(folder);
  try {
    let lost: Error | undefined;
    const usage = await openMeter({
      ...{ logUrl, gatewayToken, controlPlanes, logger, name, dataDir: folder },
      lookup: { usageAdjustment: () => 0 },
      onLost: (error) => {
        lost = error;
      },
    });
    try {
      do await sleep(lookEveryMs, stopping);
      while (usage.meter.unshippedRows > 0 && !stopping.aborted && lost === undefined);
    } finally {
      await usage.close();
    }
    if (lost !== undefined) throw lost;
    return usage.meter.unshippedRows;
  } finally {
    lock?.release();
  }
}
