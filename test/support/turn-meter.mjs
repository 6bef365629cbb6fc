// Loaded into a process with --import. Measures the CPU time of the main thread between two ticks of a short timer. A turn of
// the event loop cannot have taken longer, and other processes on the machine do not affect the figure. On SIGUSR2, writes
// the longest turn so far, in ms, to $HEADGATE_TEST_TURNS and starts over.
import { openSync, readSync, renameSync, writeFileSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';

const report = process.env['HEADGATE_TEST_TURNS'];
if (isMainThread && report !== undefined) {
  // The main thread's id equals the process id.
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
