/** Entry point of the shaping worker: serves jobs on the port of the thread that started it. */
import { parentPort } from 'node:worker_threads';
import { serveShaping } from './worker.ts';

if (parentPort) serveShaping(parentPort);
