/** Entry point of the decision journal's thread. */
import { parentPort, workerData } from 'node:worker_threads';
import { type JournalThreadOptions, serveJournal } from './journal-thread.ts';

if (parentPort) serveJournal(parentPort, workerData as JournalThreadOptions);
