/**
 * The desk of usage, wired to a port: outbox and publisher towards the usage log, the totals back from it. It opens
 * without the log, from what the data folder knows, and catches up when the log can be reached.
 */
import { join } from 'node:path';
import type { MessagePort } from 'node:worker_threads';
import type { LineLogger } from '../../shared/runtime/logger.ts';
import { followUsage, openUsageStoreIn, usageLogAt } from '../../shared/usage/open-usage.ts';
import { openOutbox } from './outbox.ts';
import { Publisher } from './publisher.ts';
import { UsageDesk } from './usage-worker.ts';
import type { DeskNews, DeskRequest } from './worker-messages.ts';

/** How long opening waits for the totals to reach the end of the log. */
const catchUpMs = 3_000;
/** How long closing waits for the log to take the last rows; what is left goes out at the next start. */
const shipRestMs = 2_000;

export interface DeskPlace {
  readonly logUrl: string;
  /** The folder of `outbox.db` and `usage.db`. */
  readonly dataDir: string;
}

/** Serves a port until it is told to close. Never rejects: what goes wrong at opening is said on the port. */
export async function serveDesk(port: MessagePort, place: DeskPlace): Promise<void> {
  const say = (news: DeskNews): void => port.postMessage(news);
  try {
    const { desk, close } = await openDesk(place, say);
    desk.open();
    let isClosing = false;
    port.on('message', (request: DeskRequest) => {
      // What comes behind the request to close has no file left to go to.
      if (isClosing) return;
      if (request.kind !== 'close') return desk.take(request);
      isClosing = true;
      void close()
        .catch((error: unknown) => loggerOver(say).error({ err: error }, 'usage could not be closed'))
        .finally(() => {
          say({ kind: 'closed' });
          port.close();
        });
    });
  } catch (error) {
    const { name, message } = error instanceof Error ? error : new Error(String(error));
    say({ kind: 'failed', name, message });
    port.close();
  }
}

interface OpenedDesk {
  readonly desk: UsageDesk;
  close(): Promise<void>;
}

async function openDesk({ logUrl, dataDir }: DeskPlace, say: (news: DeskNews) => void): Promise<OpenedDesk> {
  const address = usageLogAt(logUrl);
  const logger = loggerOver(say);
  const outbox = openOutbox({
    path: join(dataDir, 'outbox.db'),
    onError: (error) => logger.error({ err: error }, 'usage could not be kept'),
  });
  const store = openUsageStoreIn(dataDir, { rebuild: true });
  const desk = new UsageDesk({ outbox, store, say });
  const onApplied = desk.applied.bind(desk);
  const followed = followUsage({ store, logUrl, logger, onApplied });
  const publisher = new Publisher({
    outbox,
    ...address,
    onReach: (reachable, error) =>
      logger.warn({ reachable, reason: error?.message }, 'shipping of usage to the log'),
  });
  publisher.start();
  if (!(await followed.replicator.caughtUp(catchUpMs)))
    logger.warn({}, 'allowances are counted from what is known here until the usage log is read to its end');
  const close = async () => {
    await publisher.stop(shipRestMs);
    await followed.close();
    outbox.close();
  };
  return { desk, close };
}

/** The lines of this thread are written by the one that has the process's log. */
function loggerOver(say: (news: DeskNews) => void): LineLogger {
  const at = (level: 'warn' | 'error' | 'fatal') => (fields: object, text: string) =>
    say({ kind: 'log', level, fields, text });
  return { warn: at('warn'), error: at('error'), fatal: at('fatal') };
}
