/** Entry point of the thread that makes one copy of the state. */
import { parentPort, workerData } from 'node:worker_threads';
import { type CopyPlan, copySnapshot } from './copy-snapshot.ts';

parentPort?.postMessage(await copySnapshot(workerData as CopyPlan));
