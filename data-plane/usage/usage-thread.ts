/** The thread of usage: its desk, served on the port to the thread that started it. */
import { parentPort, workerData } from 'node:worker_threads';
import { type DeskPlace, serveDesk } from './open-desk.ts';

if (parentPort) await serveDesk(parentPort, workerData as DeskPlace);
