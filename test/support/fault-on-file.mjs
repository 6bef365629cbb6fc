// Loaded into a gateway with --import, and so into its threads. While a file is there, something fails:
// $HEADGATE_TEST_FAULT         a key that is looked up ends in an error that no rule of the service makes
// $HEADGATE_TEST_FAULT.clock   the clock of the main thread is an hour later at each look
// $HEADGATE_TEST_FAULT.usage   the thread that keeps usage does nothing, as soon as the file .usage.stalled is there
import crypto from 'node:crypto';
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { isMainThread, workerData } from 'node:worker_threads';

const file = process.env['HEADGATE_TEST_FAULT'] ?? '';
const { hash } = crypto;
crypto.hash = (...args) => {
  if (existsSync(file) && new Error('where').stack.includes('hashKey'))
    throw new Error('a fault of the test');
  return hash(...args);
};
syncBuiltinESMExports();

if (isMainThread) {
  const { now } = Date;
  let aheadMs = 0;
  Date.now = () => {
    if (!existsSync(`${file}.clock`)) return now();
    aheadMs += 3_600_000;
    return now() + aheadMs;
  };
} else if (typeof workerData?.dataDir === 'string') {
  const pause = new Int32Array(new SharedArrayBuffer(4));
  const stall = () => {
    if (!existsSync(`${file}.usage`)) return;
    writeFileSync(`${file}.usage.stalled`, '');
    while (existsSync(`${file}.usage`)) Atomics.wait(pause, 0, 0, 10);
    rmSync(`${file}.usage.stalled`);
  };
  setInterval(stall, 5).unref();
}
