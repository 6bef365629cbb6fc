/** Loaded into a process by `--import`: SIGUSR2 starts a CPU profile of the main thread, the next one writes it to BENCH_PROFILE. */
import { writeFileSync } from 'node:fs';
import { Session } from 'node:inspector';
import { isMainThread } from 'node:worker_threads';

const path = process.env['BENCH_PROFILE'];
/** Between two samples, µs. */
const interval = 200;

if (path !== undefined && isMainThread) {
  const session = new Session();
  session.connect();
  let isRunning = false;
  process.on('SIGUSR2', () => {
    if (isRunning) {
      session.post('Profiler.stop', (error, { profile }) => {
        if (error === null) writeFileSync(path, JSON.stringify(profile));
      });
      return;
    }
    isRunning = true;
    session.post('Profiler.enable');
    session.post('Profiler.setSamplingInterval', { interval });
    session.post('Profiler.start');
  });
}
