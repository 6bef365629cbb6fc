// The fuzz command: builds, then runs hostile input of test/fuzz against a really started fleet, a minute for each target
// (`npm run fuzz -- [TARGET] [--seconds N] [--seed S] [--case N]`). Failing inputs are saved under .cache/fuzz/.
import { spawnSync } from 'node:child_process';

const run = (...words) => spawnSync(process.execPath, words, { stdio: 'inherit' }).status ?? 1;
process.exit(run('scripts/build.mjs') || run('dist/test/fuzz/main.js', ...process.argv.slice(2)));
