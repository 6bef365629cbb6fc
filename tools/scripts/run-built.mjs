// Builds, then runs a built module: `node tools/scripts/run-built.mjs test/fuzz/main --seconds 60`. The module's head comment
// explains its arguments. If a folder is given, the next argument names the module in it; without one, lists the modules.
import { spawnSync } from 'node:child_process';
import { readdirSync, statSync } from 'node:fs';
import { basename } from 'node:path';

let [module = '', ...args] = process.argv.slice(2);
if (statSync(module, { throwIfNoEntry: false })?.isDirectory()) {
  const names = readdirSync(module).filter((name) => name.endsWith('.ts'));
  const [name] = args;
  if (!names.includes(`${name}.ts`)) {
    const known = names.map((each) => each.slice(0, -'.ts'.length)).join(', ');
    console.error(`usage: npm run ${basename(module)} -- NAME\nNAME is one of: ${known}`);
    process.exit(2);
  }
  [module, args] = [`${module}/${name}`, args.slice(1)];
}
const run = (...words) => spawnSync(process.execPath, words, { stdio: 'inherit' }).status ?? 1;
process.exit(run('tools/scripts/build.mjs') || run(`dist/${module}.js`, ...args));
