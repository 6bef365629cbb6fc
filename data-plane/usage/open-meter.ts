/**
 * The gateway's metering, wired: the meter here, the desk with its files and its logs on a thread of its own.
 * A fault that ends that thread ends the process, as it would on this one.
 */
import { MessageChannel, type MessagePort, Worker } from 'node:worker_threads';
import type { Logger } from '../../shared/process/logger.ts';
import type { DeskNews } from './messages.ts';
import { Meter } from './meter.ts';
import { type DeskPlace, serveDesk } from './open-desk.ts';

export interface OpenMeterOptions extends DeskPlace {
  readonly lookup: { usageAdjustment(organisation: string, period: string): number };
  readonly logger: Logger;
}

export interface OpenedMeter {
  readonly meter: Meter;
  /** Ships what is left, for two seconds at most, and closes all. */
  close(): Promise<void>;
}

/** Rejects with the names and messages of the errors of shared/sqlite.ts, and of LogUrlInvalid. */
export async function openMeter(options: OpenMeterOptions): Promise<OpenedMeter> {
  const { logUrl, dataDir, lookup, logger } = options;
  const desk = startDesk({ logUrl, dataDir });
  const adjustmentOf = lookup.usageAdjustment.bind(lookup);
  const meter = await new Promise<Meter>((resolve, reject) => {
    let meter: Meter | undefined;
    desk.on('message', (news: DeskNews) => {
      if (news.kind === 'log') logger[news.level](news.fields, news.text);
      else if (news.kind === 'state' || news.kind === 'totals') meter?.hear(news);
      else if (news.kind === 'failed') reject(Object.assign(new Error(news.message), { name: news.name }));
      else if (news.kind === 'opened') {
        meter = new Meter({
          ask: (request) => desk.postMessage(request),
          pending: news.pending,
          adjustmentOf,
        });
        resolve(meter);
      }
    });
  });
  const close = async () => {
    meter.handOver();
    const closed = new Promise<void>((resolve) => {
      desk.on('message', (news: DeskNews) => {
        if (news.kind === 'closed') resolve();
      });
    });
    desk.postMessage({ kind: 'close' });
    await closed;
  };
  return { meter, close };
}

function startDesk(place: DeskPlace): MessagePort | Worker {
  if (!import.meta.url.endsWith('.ts'))
    return new Worker(new URL('./usage-thread.js', import.meta.url), { workerData: place });
  // Node runs no TypeScript on a thread: from the sources the desk shares this one, over the same messages.
  const { port1, port2 } = new MessageChannel();
  void serveDesk(port2, place);
  return port1;
}
