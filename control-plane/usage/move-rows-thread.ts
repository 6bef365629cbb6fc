/** Entry point of the thread that moves rows from `usage.db` into day files. */
import { parentPort, workerData } from 'node:worker_threads';
import { type MoveTask, moveRows } from './move-rows.ts';

parentPort?.postMessage(moveRows(workerData as MoveTask));
