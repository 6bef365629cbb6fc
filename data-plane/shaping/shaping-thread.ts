/** The thread of shaping: its desk, served on the port to the thread that started it. */
import { parentPort } from 'node:worker_threads';
import { serveShaping } from './desk.ts';

if (parentPort) serveShaping(parentPort);
