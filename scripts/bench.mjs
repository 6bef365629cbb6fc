// The bench command: builds, then runs dist/bench/NAME.js with the arguments that follow. Without a name it lists the benches.
// Each bench prints a table and, as its last line, one JSON object of its figures.
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';

const benches = readdirSync('bench')
  .filter((name) => name.endsWith('.ts'))
  .map((name) => name.slice(0, -'.ts'.length));
const [name, ...args] = process.argv.slice(2);

if (!benches.includes(name)) {
  console.error(`usage: npm run bench -- NAME\nNAME is one of: ${benches.join(', ')}`);
  process.exit(2);
}
const run = (...words) => spawnSync(process.execPath, words, { stdio: 'inherit' }).status ?? 1;
process.exit(run('scripts/build.mjs') || run(`dist/bench/${name}.js`, ...args));
