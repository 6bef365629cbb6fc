/** Entry point of the history thread. */
import { parentPort, workerData } from 'node:worker_threads';
import { serveHistory } from './history-thread.ts';
import type { ThreadData } from './thread-messages.ts';

if (parentPort) serveHistory(parentPort, workerData as ThreadData);
