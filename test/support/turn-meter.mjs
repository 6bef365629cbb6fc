// Loaded into a process with --import: the processor time that its main thread takes between two ticks of a short timer.
// A turn of the event loop cannot be longer than that, and what other processes take of the machine does not count.
// SIGUSR2 writes the longest so far, in ms, to $HEADGATE_TEST_TURNS, and begins again.
import { openSync, readSync, renameSync, writeFileSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';

const report = process.env['HEADGATE_TEST_TURNS'];
if (isMainThread && report !== undefined) {
  // The main thread has the number of the process.
  const stat = openSync(`/proc/self/task/${process.pid}/schedstat`, 'r');
  const bytes = Buffer.alloc(64);
  const processorMs = () =>
    Number(bytes.toString('latin1', 0, readSync(stat, bytes, 0, 64, 0)).split(' ')[0]) / 1e6;
  let before = processorMs();
  let longest = 0;
  setInterval(() => {
    const now = processorMs();
    longest = Math.max(longest, now - before);
    before = now;
  }, 2).unref();
  process.on('SIGUSR2', () => {
    writeFileSync(`${report}.part`, String(longest));
    renameSync(`${report}.part`, report);
    longest = 0;
  });
}
