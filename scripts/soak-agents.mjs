// The soak of node agents: builds, then 500 agents on two control planes (a minute or two). SOAK_AGENTS sets their number.
import { spawnSync } from 'node:child_process';

const run = (...words) => spawnSync(process.execPath, words, { stdio: 'inherit' }).status ?? 1;
process.exit(run('scripts/build.mjs') || run('dist/test/nodes/main.js'));
