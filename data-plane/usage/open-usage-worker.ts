/**
 * Builds the usage worker and serves it on a message port: outbox and publisher write to the usage log, the replicator
 * folds it back into totals. The worker opens without the log, from the files of the data folder, and catches up once the
 * log is reachable.
 */
import { join } from 'node:path';
import type { MessagePort } from 'node:worker_threads';
import type { LineLogger } from '../../shared/runtime/logger.ts';
import { followUsage, openUsageStoreIn, usageLogAt } from '../../shared/usage/open-usage.ts';
import { openOutbox } from './outbox.ts';
import { Publisher } from './publisher.ts';
import { UsageWorker } from './usage-worker.ts';
import type { UsageWorkerEvent, UsageWorkerRequest } from './worker-messages.ts';

/** How long opening waits for the totals to reach the end of the log. */
const catchUpTimeoutMs = 3_000;
/** How long closing waits for the log to acknowledge the last rows; the rest is shipped at the next start. */
const drainTimeoutMs = 2_000;

export interface UsageWorkerOptions {
  readonly logUrl: string;
  /** The folder of `outbox.db` and `usage.db`. */
  readonly dataDir: string;
}

/** Serves a port until a `close` request. Never rejects: errors while opening are posted as `failed`. */
export async function serveUsageWorker(port: MessagePort, options: UsageWorkerOptions): Promise<void> {
  const post = (event: UsageWorkerEvent): void => port.postMessage(event);
  try {
    const { worker, close } = await openUsageWorker(options, post);
    worker.open();
    let isClosing = false;
    port.on('message', (request: UsageWorkerRequest) => {
      // Requests after `close` have no file to be written to.
      if (isClosing) return;
      if (request.kind !== 'close') return worker.onRequest(request);
      isClosing = true;
      void close()
        .catch((error: unknown) => loggerOver(post).error({ err: error }, 'usage could not be closed'))
        .finally(() => {
          post({ kind: 'closed' });
          port.close();
        });
    });
  } catch (error) {
    const { name, message } = error instanceof Error ? error : new Error(String(error));
    post({ kind: 'failed', name, message });
    port.close();
  }
}

interface OpenedUsageWorker {
  readonly worker: UsageWorker;
  close(): Promise<void>;
}

async function openUsageWorker(
  { logUrl, dataDir }: UsageWorkerOptions,
  post: (event: UsageWorkerEvent) => void,
): Promise<OpenedUsageWorker> {
  const address = usageLogAt(logUrl);
  const logger = loggerOver(post);
  const outbox = openOutbox({
    path: join(dataDir, 'outbox.db'),
    onError: (error) => logger.error({ err: error }, 'usage could not be written'),
  });
  const store = openUsageStoreIn(dataDir, { rebuild: true });
  const worker = new UsageWorker({ outbox, store, post });
  const onApplied = worker.onApplied.bind(worker);
  const followed = followUsage({ store, logUrl, logger, onApplied });
  const publisher = new Publisher({
    outbox,
    ...address,
    onReachabilityChange: (reachable, error) =>
      logger.warn({ reachable, reason: error?.message }, 'usage publisher'),
  });
  publisher.start();
  if (!(await followed.replicator.caughtUp(catchUpTimeoutMs)))
    logger.warn(
      {},
      'the usage log is not read to its end yet; until then allowances count local totals only',
    );
  const close = async () => {
    await publisher.stop(drainTimeoutMs);
    await followed.close();
    outbox.close();
  };
  return { worker, close };
}

/** Log lines of this thread are posted to the main thread, which owns the process's log. */
function loggerOver(post: (event: UsageWorkerEvent) => void): LineLogger {
  const at = (level: 'warn' | 'error' | 'fatal') => (fields: object, text: string) =>
    post({ kind: 'log', level, fields, text });
  return { warn: at('warn'), error: at('error'), fatal: at('fatal') };
}
