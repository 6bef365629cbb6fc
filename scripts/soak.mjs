// The soak command: builds, then runs the long form of test/soak (some minutes). SOAK_REQUESTS, SOAK_KILLS and SEED set it.
import { spawnSync } from 'node:child_process';

const run = (...words) => spawnSync(process.execPath, words, { stdio: 'inherit' }).status ?? 1;
process.exit(run('scripts/build.mjs') || run('dist/test/soak/main.js'));
