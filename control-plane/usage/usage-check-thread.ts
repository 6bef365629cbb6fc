/** Entry point of the thread that checks `usage.db` once. */
import { parentPort, workerData } from 'node:worker_threads';
import { checkUsage } from './check-usage.ts';

parentPort?.postMessage(checkUsage(workerData as string));
