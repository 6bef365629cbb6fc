/**
 * The gateway's metering, wired: the meter here, the desk with its files and its logs on a worker thread of its own.
 * A gateway without that worker could bill nothing, so whatever ends the worker is reported, and the process must end.
 */
import { MessageChannel, type MessagePort, Worker } from 'node:worker_threads';
import { type FaultFields, faultFields } from '../../shared/runtime/fault.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { Meter } from './meter.ts';
import { type DeskPlace, serveDesk } from './open-usage-worker.ts';
import type { DeskNews } from './worker-messages.ts';

/** More than the two seconds for which the desk ships what is left. */
const closeMsMaxDefault = 5_000;

export interface OpenMeterOptions extends DeskPlace {
  readonly lookup: { usageAdjustment(organisation: string, period: string): number };
  readonly logger: Logger;
  /** Called once, when the worker ended that nobody closed. No usage is kept from then on. */
  readonly onLost: (error: UsageWorkerEnded) => void;
  readonly closeMsMax?: number;
}

export interface OpenedMeter {
  readonly meter: Meter;
  /** Ships what is left, for two seconds at most, and closes all. Bounded, whatever the worker does. */
  close(): Promise<void>;
}

/** The worker is gone; says why, as far as that is known. */
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
  const { logUrl, dataDir, lookup, logger, onLost, closeMsMax = closeMsMaxDefault } = options;
  const desk = startDesk({ logUrl, dataDir });
  const adjustmentOf = lookup.usageAdjustment.bind(lookup);
  let isClosing = false;
  let meter: Meter | undefined;
  const ended = endOf(desk);
  const opened = new Promise<Meter>((resolve, reject) => {
    desk.on('message', (news: DeskNews) => {
      if (news.kind === 'log') logger[news.level](news.fields, news.text);
      else if (news.kind === 'state' || news.kind === 'totals') meter?.hear(news);
      else if (news.kind === 'failed') reject(Object.assign(new Error(news.message), { name: news.name }));
      else if (news.kind === 'opened') {
        const ask = desk.postMessage.bind(desk);
        meter = new Meter({ ask: (request) => ask(request), pending: news.pending, adjustmentOf });
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
    meter?.handOver();
    const fault = await closed(desk, ended, closeMsMax);
    if (fault !== undefined) logger.error({ unshippedRows: meter?.unshippedRows, reason: fault }, closeText);
  };
  try {
    return { meter: await opened, close };
  } catch (error) {
    // What it has opened by then would keep the process from ending.
    if ('terminate' in desk) await desk.terminate();
    throw error;
  }
}

const closeText = 'usage was not closed in good order; rows on the disk are shipped at the next start';

/** Asks the desk to close. Resolves with what was wrong, if anything was. */
async function closed(
  desk: MessagePort | Worker,
  ended: Promise<UsageWorkerEnded>,
  withinMs: number,
): Promise<string | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const fault = await new Promise<string | undefined>((resolve) => {
    desk.on('message', (news: DeskNews) => {
      if (news.kind === 'closed') resolve(undefined);
    });
    void ended.then(({ message }) => resolve(message));
    timer = setTimeout(() => resolve(`the usage worker did not close within ${withinMs} ms`), withinMs);
    desk.postMessage({ kind: 'close' });
  });
  clearTimeout(timer);
  if (fault !== undefined && 'terminate' in desk) await desk.terminate();
  return fault;
}

/** Resolves when the worker has ended, or its port was closed. Takes the place of the `error` event, which else throws. */
function endOf(desk: MessagePort | Worker): Promise<UsageWorkerEnded> {
  return new Promise((resolve) => {
    let fault: FaultFields | undefined;
    desk.on('message', (news: DeskNews) => {
      if (news.kind === 'ended') fault = news.fault;
    });
    if (!('terminate' in desk)) {
      desk.on('close', () => resolve(new UsageWorkerEnded(undefined, fault)));
      return;
    }
    desk.on('error', (error) => {
      fault ??= faultFields(error);
    });
    desk.on('exit', (exitCode) => resolve(new UsageWorkerEnded(exitCode, fault)));
  });
}

function startDesk(place: DeskPlace): MessagePort | Worker {
  if (!import.meta.url.endsWith('.ts')) return startWorker(place);
  // Node runs no TypeScript on a thread: from the sources the desk shares this one, over the same messages.
  const { port1, port2 } = new MessageChannel();
  void serveDesk(port2, place);
  return port1;
}

/** Throws where the system grants no further thread. */
function startWorker(place: DeskPlace): Worker {
  try {
    return new Worker(new URL('./worker-entry.js', import.meta.url), { workerData: place });
  } catch (error) {
    const { code = '', message = '' } = faultFields(error);
    throw new Error(
      `the usage worker could not be started (${[code, message].filter(Boolean).join(' ')}): ` +
        'this account or container has no room for another thread; raise its limits of processes and of memory',
      { cause: error },
    );
  }
}
