/**
 * Starts the gateway's metering: the meter on this thread, the usage worker with its files and logs on a thread of its
 * own. A gateway without that worker cannot bill, so an unexpected end of the worker is reported and must end the process.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { MessageChannel, type MessagePort, Worker } from 'node:worker_threads';
import { type FaultFields, faultFields } from '../../shared/runtime/fault.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { Meter } from './meter.ts';
import { serveUsageWorker, type UsageWorkerOptions } from './open-usage-worker.ts';
import { SpoolWriter } from './spool-writer.ts';
import type { UsageWorkerEvent, UsageWorkerRequest } from './worker-messages.ts';

/** More than the two seconds for which the worker ships the remaining rows. */
const closeTimeoutMsDefault = 5_000;

/** Rows live for milliseconds; by default a thread takes as much memory for young objects as the process. */
const workerYoungMegabytes = 4;

export interface OpenMeterOptions extends UsageWorkerOptions {
  readonly lookup: { usageAdjustment(organisation: string, period: string): number };
  readonly logger: Logger;
  /** Called once if the worker ends without `close`. No usage is recorded from then on. */
  readonly onLost: (error: UsageWorkerEnded) => void;
  readonly closeTimeoutMs?: number;
}

export interface OpenedMeter {
  readonly meter: Meter;
  /** Ships the remaining rows for at most two seconds and closes the files. Resolves in time even if worker or disk hang. */
  close(): Promise<void>;
}

/** The worker ended; the message has its exit code and fault, where known. */
class UsageWorkerEnded extends Error {
  override readonly name = 'UsageWorkerEnded';

  constructor(exitCode: number | undefined, fault: FaultFields | undefined) {
    const how = exitCode === undefined ? '' : ` with exit code ${exitCode}`;
    const { type = 'no reason given', code = '', message = '', at = [] } = fault ?? {};
    const where = at[0] === undefined ? '' : `at ${at[0]}`;
    super(`the usage worker ended${how}: ${[type, code, message, where].filter(Boolean).join(' ')}`);
  }
}

/** Rejects with the names and messages of the errors of shared/runtime/sqlite.ts, of LogUrlInvalid, or with UsageWorkerEnded. */
export async function openMeter(options: OpenMeterOptions): Promise<OpenedMeter> {
  const { lookup, logger, onLost, closeTimeoutMs = closeTimeoutMsDefault, ...workerOptions } = options;
  const worker = startUsageWorker(workerOptions);
  const adjustmentOf = lookup.usageAdjustment.bind(lookup);
  let isClosing = false;
  let meter: Meter | undefined;
  let spool: SpoolWriter | undefined;
  const ended = endOf(worker);
  const opened = new Promise<Meter>((resolve, reject) => {
    worker.on('message', (event: UsageWorkerEvent) => {
      if (event.kind === 'log') logger[event.level](event.fields, event.text);
      else if (event.kind === 'state' || event.kind === 'totals') meter?.onEvent(event);
      else if (event.kind === 'failed') reject(Object.assign(new Error(event.message), { name: event.name }));
      else if (event.kind === 'opened') {
        const post = (request: UsageWorkerRequest) =>
          // Nobody else has the buffer of its rows, so it is not copied once more.
          worker.postMessage(request, request.kind === 'rows' ? [request.group.rows.buffer] : []);
        const onError = (err: Error) => logger.error({ err }, 'usage could not be written');
        spool = new SpoolWriter({ ...event.spool, onError });
        meter = new Meter({ post, adjustmentOf, spool });
        resolve(meter);
      }
    });
    void ended.then((error) => {
      if (meter === undefined) reject(error);
      else if (!isClosing) onLost(error);
    });
  });
  const close = async () => {
    isClosing = true;
    meter?.sendRows();
    const fault = await closeWorker(worker, ended, closeTimeoutMs);
    if (fault !== undefined) logger.error({ unshippedRows: meter?.unshippedRows, reason: fault }, closeText);
    await Promise.race([spool?.close(), delay(closeTimeoutMs, undefined, { ref: false })]);
    const lostRows = spool?.unkeptRows ?? 0;
    if (lostRows > 0) logger.error({ lostRows }, 'rows of usage could be written to no file and are lost');
  };
  try {
    return { meter: await opened, close };
  } catch (error) {
    // The worker's open files and sockets would keep the process alive.
    if ('terminate' in worker) await worker.terminate();
    throw error;
  }
}

const closeText = 'the usage worker did not close cleanly; rows on the disk are shipped at the next start';

/** Requests the worker to close. Resolves with the reason where it did not close cleanly. */
async function closeWorker(
  worker: MessagePort | Worker,
  ended: Promise<UsageWorkerEnded>,
  withinMs: number,
): Promise<string | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const fault = await new Promise<string | undefined>((resolve) => {
    worker.on('message', (event: UsageWorkerEvent) => {
      if (event.kind === 'closed') resolve(undefined);
    });
    void ended.then(({ message }) => resolve(message));
    timer = setTimeout(() => resolve(`the usage worker did not close within ${withinMs} ms`), withinMs);
    worker.postMessage({ kind: 'close' });
  });
  clearTimeout(timer);
  // It ends once its call into the file system does.
  if (fault !== undefined && 'terminate' in worker)
    await Promise.race([worker.terminate(), delay(withinMs, undefined, { ref: false })]);
  return fault;
}

/** Resolves when the worker has ended, or its port was closed. Handles the worker's `error` event, which would throw here. */
function endOf(worker: MessagePort | Worker): Promise<UsageWorkerEnded> {
  return new Promise((resolve) => {
    let fault: FaultFields | undefined;
    worker.on('message', (event: UsageWorkerEvent) => {
      if (event.kind === 'ended') fault = event.fault;
    });
    if (!('terminate' in worker)) {
      worker.on('close', () => resolve(new UsageWorkerEnded(undefined, fault)));
      return;
    }
    worker.on('error', (error) => {
      fault ??= faultFields(error);
    });
    worker.on('exit', (exitCode) => resolve(new UsageWorkerEnded(exitCode, fault)));
  });
}

function startUsageWorker(options: UsageWorkerOptions): MessagePort | Worker {
  if (!import.meta.url.endsWith('.ts')) return startThread(options);
  // Node 20 runs no TypeScript on a thread: from the sources the worker shares this thread, over the same messages.
  const { port1, port2 } = new MessageChannel();
  void serveUsageWorker(port2, options);
  return port1;
}

/** Throws where the system cannot start another thread. */
function startThread(options: UsageWorkerOptions): Worker {
  try {
    return new Worker(new URL('./worker-entry.js', import.meta.url), {
      workerData: options,
      resourceLimits: { maxYoungGenerationSizeMb: workerYoungMegabytes },
    });
  } catch (error) {
    const { code = '', message = '' } = faultFields(error);
    throw new Error(
      `the usage worker could not be started (${[code, message].filter(Boolean).join(' ')}): ` +
        'this account or container has no room for another thread; raise its limits of processes and of memory',
      { cause: error },
    );
  }
}
