// Loaded with --import into a process of the copied build that `recorded-build.ts` makes, and into its threads. Once the
// folder $HEADGATE_TEST_CALLS contains a file `begin`, records the file of every called function. Each thread writes lines
// with a time and a file name to a file of its own in the folder. Times are in ns of the machine's monotonic clock.
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
