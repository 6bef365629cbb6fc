// The mutation command: builds, then breaks one rule of a source at a time and runs the tests that must notice it.
// An argument keeps only the mutations whose module or rule contains it: npm run mutation -- data-plane/response
import { spawnSync } from 'node:child_process';

const env = { HEADGATE_TEST_TIER: 'full', ...process.env };
const run = (...words) => spawnSync(process.execPath, words, { stdio: 'inherit', env }).status ?? 1;
process.exit(run('scripts/build.mjs') || run('dist/test/mutation/main.js', ...process.argv.slice(2)));
