/** Entry point of the body worker's thread. */
import { parentPort } from 'node:worker_threads';
import { serveJobs } from './worker.ts';

if (parentPort) serveJobs(parentPort);
