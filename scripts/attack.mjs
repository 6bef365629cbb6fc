// The attack command: builds, then runs the attacks of test/attacks against a really started fleet, ten seconds each
// (`npm run attack -- [TEXT] [--seconds N]`). Prints what other callers waited meanwhile.
import { spawnSync } from 'node:child_process';

const run = (...words) => spawnSync(process.execPath, words, { stdio: 'inherit' }).status ?? 1;
process.exit(run('scripts/build.mjs') || run('dist/test/attacks/main.js', ...process.argv.slice(2)));
