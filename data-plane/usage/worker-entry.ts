/** The thread of usage: its desk, served on the port to the thread that started it. */
import { parentPort, workerData } from 'node:worker_threads';
import { faultFields } from '../../shared/runtime/fault.ts';
import { type DeskPlace, serveDesk } from './open-usage-worker.ts';
import type { DeskNews } from './worker-messages.ts';

const port = parentPort;
if (port) {
  // Ends this thread alone; the one that started it ends the process, with this fault in its log.
  process.on('uncaughtException', (error: unknown) => {
    port.postMessage({ kind: 'ended', fault: faultFields(error) } satisfies DeskNews);
    process.exit(1);
  });
  await serveDesk(port, workerData as DeskPlace);
}
