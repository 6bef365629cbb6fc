// The golden command: builds, then adds to the golden files of test/replay what the tests there ask for (`npm run golden -- add`).
import { spawnSync } from 'node:child_process';

const run = (...words) => spawnSync(process.execPath, words, { stdio: 'inherit' }).status ?? 1;
process.exit(run('scripts/build.mjs') || run('dist/test/replay/add-golden.js', ...process.argv.slice(2)));
