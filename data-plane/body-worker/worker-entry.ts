/** Entry point of the body worker: serves jobs on the port of the thread that started it. */
import { parentPort } from 'node:worker_threads';
import { serveJobs } from './worker.ts';

if (parentPort) serveJobs(parentPort);
