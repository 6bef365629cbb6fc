/**
 * Starts the metering of a gateway: the meter in this thread, and the usage worker with its files and logs in another.
 * Without the usage worker, a gateway cannot bill. So if the worker ends unexpectedly, the process must end too.
 */
import { type FaultFields, faultFields } from '../../shared/runtime/fault.ts';
import { type Logger, writeLine } from '../../shared/runtime/logger.ts';
import { within } from '../../shared/runtime/retry.ts';
import { WorkerThread } from '../../shared/runtime/worker-thread.ts';
import { Meter } from './meter.ts';
import type { UsageWorkerOptions } from './open-usage-worker.ts';
import { openUsageLog } from './usage-log.ts';
import { UsageWriter } from './usage-writer.ts';
import type { UsageWorkerEvent, UsageWorkerRequest } from './worker-messages.ts';

/** Maximum time in ms to close the meter. Longer than the two seconds in which the worker ships the remaining rows. */
const closeTimeoutMsDefault = 5_000;

/** Heap in MB for the worker's short-lived objects. Its rows live for milliseconds, so the larger default is a waste. */
const workerYoungMegabytes = 4;

export interface OpenMeterOptions extends UsageWorkerOptions {
  readonly lookup: { usageAdjustment(organisation: string, period: string): number };
  readonly logger: Logger;
  /** Called once if the usage worker ends before `close` was called. From then on, no usage is recorded. */
  readonly onLost: (error: UsageWorkerEnded) => void;
  readonly closeTimeoutMs?: number;
}

export interface OpenedMeter {
  readonly meter: Meter;
  /** Ships the remaining rows, for at most two seconds, and closes the files. Resolves even if the worker or a disk hangs. */
  close(): Promise<void>;
}

/** Error for a usage worker that has ended. The message contains its exit code and the reason, if known. */
class UsageWorkerEnded extends Error {
  override readonly name = 'UsageWorkerEnded';

  constructor(exitCode: number | undefined, fault: FaultFields | undefined) {
    const how = exitCode === undefined ? '' : ` with exit code ${exitCode}`;
    const { type = 'no reason given', code = '', message = '', at = [] } = fault ?? {};
    const where = at[0] === undefined ? '' : `at ${at[0]}`;
    super(`the usage worker ended${how}: ${[type, code, message, where].filter(Boolean).join(' ')}`);
  }
}

/** Starts metering. Rejects with `UsageWorkerEnded`, or with an error that has the name and message of the worker's error. */
export async function openMeter(options: OpenMeterOptions): Promise<OpenedMeter> {
  const { lookup, logger, onLost, closeTimeoutMs = closeTimeoutMsDefault, ...workerOptions } = options;
  const adjustmentOf = lookup.usageAdjustment.bind(lookup);
  let isClosing = false;
  let meter: Meter | undefined;
  let writer: UsageWriter | undefined;
  let shipped = 0;
  let fault: FaultFields | undefined;
  let settle: (opened: Meter | Error) => void = () => undefined;
  const opened = new Promise<Meter>((resolve, reject) => {
    settle = (meterOrError) => (meterOrError instanceof Error ? reject(meterOrError) : resolve(meterOrError));
  });
  const thread = startUsageWorker(workerOptions, (event) => {
    if (event.kind === 'log') writeLine(logger, event);
    else if (event.kind === 'totals') meter?.onEvent(event);
    else if (event.kind === 'state') {
      shipped = event.shipped;
      meter?.onEvent(event);
    } else if (event.kind === 'failed') settle(Object.assign(new Error(event.message), { name: event.name }));
    else if (event.kind === 'ended') fault = event.fault;
    else if (event.kind === 'opened') {
      const post = (request: UsageWorkerRequest) => thread.post(request);
      const onError = (err: unknown) => logger.error({ err }, 'usage could not be written');
      const log = openUsageLog(event.log, () => shipped);
      const opening = log.begin(performance.now()).catch(onError);
      writer = new UsageWriter({ log, onError });
      const begun = new Meter({ post, adjustmentOf, writer });
      meter = begun;
      void opening.then(() => settle(begun));
    }
  });
  const ended = thread.ended.then(
    ({ exitCode, error }) => new UsageWorkerEnded(exitCode, fault ?? (error && faultFields(error))),
  );
  void ended.then((error) => {
    if (meter === undefined) settle(error);
    else if (!isClosing) onLost(error);
  });
  const close = async () => {
    isClosing = true;
    if (writer) await within(writer.close(), closeTimeoutMs);
    const how = await thread.close({ kind: 'close' }, closeTimeoutMs);
    const late = `the usage worker did not close within ${closeTimeoutMs} ms`;
    const reason = how === 'ended' ? (await ended).message : late;
    if (how !== 'closed') logger.error({ unshippedRows: meter?.unshippedRows, reason }, closeText);
    const lostRows = writer?.unkeptRows ?? 0;
    if (lostRows > 0) logger.error({ lostRows }, 'usage rows could not be written to any file and are lost');
  };
  try {
    return { meter: await opened, close };
  } catch (error) {
    // End the thread, because its open files and sockets would keep the process alive.
    await thread.terminate();
    throw error;
  }
}

const closeText = 'the usage worker did not close cleanly; rows on the disk are published at the next start';

/** Starts the worker's thread. Throws if the system cannot start another thread. */
function startUsageWorker(
  data: UsageWorkerOptions,
  onEvent: (event: UsageWorkerEvent) => void,
): WorkerThread<UsageWorkerRequest, UsageWorkerEvent> {
  try {
    return new WorkerThread({
      entry: new URL('./worker-entry.js', import.meta.url),
      data,
      limits: { maxYoungGenerationSizeMb: workerYoungMegabytes },
      load: async () => {
        const { serveUsageWorker } = await import('./open-usage-worker.ts');
        return (port) => serveUsageWorker(port, data);
      },
      onEvent,
      isRef: true,
    });
  } catch (error) {
    const { code = '', message = '' } = faultFields(error);
    throw new Error(
      `the usage worker could not be started (${[code, message].filter(Boolean).join(' ')}): ` +
        'this account or container cannot start another thread; raise its process and memory limits',
      { cause: error },
    );
  }
}
