/** Entry point of the usage worker's thread. */
import { parentPort, workerData } from 'node:worker_threads';
import { faultFields } from '../../shared/runtime/fault.ts';
import { serveUsageWorker, type UsageWorkerOptions } from './open-usage-worker.ts';
import type { UsageWorkerEvent } from './worker-messages.ts';

const port = parentPort;
if (port) {
  // End only this thread, whose error the main thread then logs before it ends the process.
  process.on('uncaughtException', (error: unknown) => {
    port.postMessage({ kind: 'ended', fault: faultFields(error) } satisfies UsageWorkerEvent);
    process.exit(1);
  });
  await serveUsageWorker(port, workerData as UsageWorkerOptions);
}
