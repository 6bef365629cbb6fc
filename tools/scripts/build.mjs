// Compiles the sources into dist/, builds the web pages and records the commit. Does nothing in a package that has no
// sources.
import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { buildCommit } from './build-commit.mjs';

if (existsSync('tsconfig.json') && existsSync('node_modules/typescript')) {
  // The incremental compiler does not write unchanged files again, so files deleted from dist/ would stay missing.
  if (!isBuilt()) rmSync('dist/build.tsbuildinfo', { force: true });
  const run = spawnSync(process.execPath, ['node_modules/typescript/bin/tsc'], { stdio: 'inherit' });
  if (run.status !== 0) process.exit(run.status ?? 1);
  chmodSync('dist/cli/headgate.js', 0o755);
  writeFileSync('dist/build.json', `${JSON.stringify({ commit: buildCommit() })}\n`);
  const pages = spawnSync(process.execPath, ['tools/scripts/build-console.mjs'], { stdio: 'inherit' });
  if (pages.status !== 0) process.exit(pages.status ?? 1);
}

/** Returns whether dist/ contains the output of every source file. */
function isBuilt() {
  const { include } = JSON.parse(readFileSync('tsconfig.json', 'utf8'));
  return include.every((folder) =>
    readdirSync(folder, { recursive: true }).every(
      (name) => !/(?<!\.d)\.ts$/.test(name) || existsSync(`dist/${folder}/${name.slice(0, -2)}js`),
    ),
  );
}
