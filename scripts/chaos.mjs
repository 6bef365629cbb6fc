// The chaos command: builds, then runs the long form of one scenario of test/chaos against a real Kafka (some minutes).
// Without a name it lists the scenarios. SEED and CHAOS_COUNT set it. Needs Java 17, and Maven the first time.
import { spawnSync } from 'node:child_process';

const run = (...words) => spawnSync(process.execPath, words, { stdio: 'inherit' }).status ?? 1;
process.exit(run('scripts/build.mjs') || run('dist/test/chaos/main.js', ...process.argv.slice(2)));
