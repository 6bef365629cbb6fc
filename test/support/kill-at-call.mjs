// Loaded into a process with --import: kills it (SIGKILL) before its n-th change of a file in $HEADGATE_TEST_KILL_IN, as in
// $HEADGATE_TEST_KILL_AT. Databases are changed by their driver, so a turn of the event loop in between counts as well.
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { sep } from 'node:path';

const folders = (process.env['HEADGATE_TEST_KILL_IN'] ?? '').split(',');
let left = Number(process.env['HEADGATE_TEST_KILL_AT']);

function count() {
  left--;
  if (left === 0) process.kill(process.pid, 'SIGKILL');
}

const isWatched = (path) => typeof path === 'string' && folders.some((each) => path.startsWith(each + sep));

for (const [of, names] of [
  [fs, ['openSync', 'renameSync', 'rmSync', 'createWriteStream']],
  [fs.promises, ['open', 'rename', 'rm']],
])
  for (const name of names) {
    const real = of[name];
    of[name] = (path, ...rest) => {
      // To remove what is not there changes nothing.
      if (isWatched(path) && (!name.startsWith('rm') || fs.existsSync(path))) count();
      return real(path, ...rest);
    };
  }
syncBuiltinESMExports();

// The embedded log writes what waits in a turn of its own.
const { setImmediate: realSetImmediate } = globalThis;
globalThis.setImmediate = (work, ...rest) => {
  count();
  return realSetImmediate(work, ...rest);
};
