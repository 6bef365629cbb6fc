/** The thread that moves rows of `usage.db` into the files of their days. */
import { parentPort, workerData } from 'node:worker_threads';
import { type MoveTask, moveRows } from './move-rows.ts';

parentPort?.postMessage(moveRows(workerData as MoveTask));
