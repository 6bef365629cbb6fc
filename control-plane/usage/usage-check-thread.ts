/** The thread of one check of `usage.db`. */
import { parentPort, workerData } from 'node:worker_threads';
import { checkUsage } from './check-usage.ts';

parentPort?.postMessage(checkUsage(workerData as string));
