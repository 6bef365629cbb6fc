/**
 * Builds the usage worker and serves it on a message port. To open, the worker needs only the files of the data folder; it
 * catches up with the usage log once that log is reachable. The publisher ships the outbox's rows to the usage log, and
 * gateways exchange counters, so no gateway reads another gateway's rows.
 */
import { join } from 'node:path';
import type { MessagePort } from 'node:worker_threads';
import { countersTopic } from '../../schemas/records/limits.ts';
import { usageTopic } from '../../schemas/records/usage.ts';
import { openCounterCopy } from '../../shared/limits/counter-copy.ts';
import { CounterState } from '../../shared/limits/counters.ts';
import { RecordMac } from '../../shared/log/core/record-mac.ts';
import { openLimitTopic } from '../../shared/log/limit-topic.ts';
import type { LineLogger } from '../../shared/runtime/logger.ts';
import { usageLogAddress } from '../../shared/usage/usage-log.ts';
import { CounterExchange, type CounterExchangeOptions } from './counter-exchange.ts';
import { fetchCounters } from './fetch-counters.ts';
import { type Outbox, openOutbox } from './outbox.ts';
import { Publisher } from './publisher.ts';
import { UsageWorker } from './usage-worker.ts';
import type { UsageWorkerEvent, UsageWorkerRequest } from './worker-messages.ts';

/** Maximum time in ms to ship the remaining rows when closing. The next start ships those that are left. */
const drainTimeoutMs = 2_000;

export interface UsageWorkerOptions {
  readonly logUrl: string;
  /** Data folder, which contains `outbox.db` and `counters.db`. */
  readonly dataDir: string;
  readonly name: string;
  readonly gatewayToken: string;
  /** Base URLs of control planes. A new data folder starts with the counters that one of them returns. */
  readonly controlPlanes: readonly string[];
}

/** Serves a message port until it receives a `close` request. Never rejects. If opening fails, posts `failed`. */
export async function serveUsageWorker(port: MessagePort, options: UsageWorkerOptions): Promise<void> {
  const post = (event: UsageWorkerEvent): void => port.postMessage(event);
  try {
    const { worker, close } = await openUsageWorker(options, post);
    worker.open();
    let isClosing = false;
    port.on('message', (request: UsageWorkerRequest) => {
      // Drop requests that arrive while the files are being closed.
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
  options: UsageWorkerOptions,
  post: (event: UsageWorkerEvent) => void,
): Promise<OpenedUsageWorker> {
  const { logUrl, dataDir } = options;
  const address = usageLogAddress(logUrl);
  const logger = loggerOver(post);
  const onError = (error: unknown) => logger.error({ err: error }, 'usage could not be written');
  const outbox = openOutbox({ path: join(dataDir, 'outbox.db'), onError });
  const { exchange, state } = await openCounters(options, outbox, logger, {
    onChanged: (keys) => worker.onChanged(keys),
    onGaps: (gaps) => worker.onGaps(gaps),
  });
  const worker = new UsageWorker({
    outbox,
    others: (key) => state.sum(key),
    onLimits: (limits) => exchange.onLimits(limits),
    live: () => exchange.live,
    counts: exchange.feed.counts,
    post,
  });
  const publisher = new Publisher({
    outbox,
    ...address,
    mac: new RecordMac(usageTopic, options.gatewayToken),
    onReachabilityChange: (reachable, error) =>
      logger.warn({ reachable, reason: error?.message }, 'reachability of the usage publisher'),
  });
  publisher.start();
  if (!(await exchange.start()))
    logger.warn(
      {},
      'not all counters of other gateways have been read yet; until then, allowances count only what this gateway knows',
    );
  const close = async () => {
    await publisher.stop(drainTimeoutMs);
    outbox.flush();
    await exchange.stop();
    outbox.close();
  };
  return { worker, close };
}

interface OpenedCounters {
  readonly exchange: CounterExchange;
  readonly state: CounterState;
}

/** Opens the counters of all gateways: from the copy on disk, or else from a control plane, or else from the whole topic. */
async function openCounters(
  { logUrl, dataDir, name, gatewayToken, controlPlanes }: UsageWorkerOptions,
  outbox: Outbox,
  logger: LineLogger,
  listeners: Pick<CounterExchangeOptions, 'onChanged' | 'onGaps'>,
): Promise<OpenedCounters> {
  const copy = openCounterCopy(join(dataDir, 'counters.db'));
  const state = new CounterState();
  copy.loadInto(state);
  if (copy.isNew) {
    const position = await fetchCounters({ controlPlanes, token: gatewayToken, state });
    if (position !== undefined) copy.save(state, position);
  }
  const topic = openLimitTopic(logUrl, {
    topic: countersTopic,
    tokens: [gatewayToken],
    onReachabilityChange: (reachable, error) =>
      logger.warn({ reachable, reason: error?.message }, 'reachability of the counters topic'),
  });
  const exchange = new CounterExchange({ outbox, copy, state, topic, name, logger, ...listeners });
  return { exchange, state };
}

/** Logger that posts its lines to the main thread, which owns the log of the process. */
function loggerOver(post: (event: UsageWorkerEvent) => void): LineLogger {
  return {
    warn: (fields, text) => post({ kind: 'log', level: 'warn', fields, text }),
    error: (fields, text) => post({ kind: 'log', level: 'error', fields, text }),
    fatal: (fields, text) => post({ kind: 'log', level: 'fatal', fields, text }),
  };
}
