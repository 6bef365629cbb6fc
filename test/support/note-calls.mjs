// Loaded with --import into a process of the copied build that `recorded-build.ts` makes, and into its threads. Records the
// file of every called function, once the folder $HEADGATE_TEST_CALLS contains a file `begin`. Each thread writes lines of a
// time and a file name to its own file there. Times are in ns of the machine's monotonic clock.
import { appendFileSync, existsSync } from 'node:fs';
import { threadId } from 'node:worker_threads';

const folder = process.env['HEADGATE_TEST_CALLS'];
const file = `${folder}/${process.pid}-${threadId}.calls`;
let isRecording = false;
let lines = '';

globalThis.__called = (name) => {
  if (isRecording) lines += `${process.hrtime.bigint()} ${name}\n`;
};

/** Writes the recorded calls. The thread's file exists as soon as recording has begun. */
function write() {
  isRecording ||= existsSync(`${folder}/begin`);
  if (isRecording) appendFileSync(file, lines);
  lines = '';
}

write();
setInterval(write, 20).unref();
process.on('exit', write);
