// Loaded into a process with --import. Kills the process (SIGKILL) before its n-th file change in the folders
// $HEADGATE_TEST_KILL_IN, with n from $HEADGATE_TEST_KILL_AT. The database driver changes its files in native code, so
// setImmediate callbacks count as changes too.
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
      // Removing a file that does not exist changes nothing.
      if (isWatched(path) && (!name.startsWith('rm') || fs.existsSync(path))) count();
      return real(path, ...rest);
    };
  }
syncBuiltinESMExports();

// The embedded log writes pending records in a setImmediate callback.
const { setImmediate: realSetImmediate } = globalThis;
globalThis.setImmediate = (work, ...rest) => {
  count();
  return realSetImmediate(work, ...rest);
};
