// Loaded with --import into a process and each of its threads. Notes which file each call of a function is in, for a copy that
// `recorded-build.ts` made, once $HEADGATE_TEST_CALLS has a file `begin`. Each thread writes lines of a time and a file name there.
// The time is in ns, of the one monotonic clock of the machine.
import { appendFileSync, existsSync } from 'node:fs';
import { threadId } from 'node:worker_threads';

const folder = process.env['HEADGATE_TEST_CALLS'];
const file = `${folder}/${process.pid}-${threadId}.calls`;
let isRecording = false;
let lines = '';

globalThis.__called = (name) => {
  if (isRecording) lines += `${process.hrtime.bigint()} ${name}\n`;
};

/** The thread's file exists as soon as its calls are noted. */
function write() {
  isRecording ||= existsSync(`${folder}/begin`);
  if (isRecording) appendFileSync(file, lines);
  lines = '';
}

write();
setInterval(write, 20).unref();
process.on('exit', write);
