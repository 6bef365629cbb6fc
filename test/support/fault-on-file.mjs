// Loaded into a gateway and its threads with --import. Something fails for as long as one of these files exists:
//
//   $HEADGATE_TEST_FAULT         looking up a key throws an unexpected error
//   $HEADGATE_TEST_FAULT.clock   the main thread's clock is one hour later at each reading
//   $HEADGATE_TEST_FAULT.usage   the usage thread stops working, once the file .usage.stalled exists as well
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
