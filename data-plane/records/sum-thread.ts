/** The thread of one question for sums. */
import { parentPort, workerData } from 'node:worker_threads';
import { type SumTask, sumRequests, yieldToOthers } from './sum-requests.ts';

yieldToOthers();
parentPort?.postMessage(await sumRequests(workerData as SumTask));
