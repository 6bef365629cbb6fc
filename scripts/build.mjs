// Compiles the sources to dist/, and the console's pages to dist/console, and notes the commit. When a built package is installed without its sources there is nothing to do.
import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, writeFileSync } from 'node:fs';
import { buildCommit } from './build-commit.mjs';

if (existsSync('tsconfig.json') && existsSync('node_modules/typescript')) {
  const run = spawnSync(process.execPath, ['node_modules/typescript/bin/tsc'], { stdio: 'inherit' });
  if (run.status !== 0) process.exit(run.status ?? 1);
  chmodSync('dist/cli/headgate.js', 0o755);
  writeFileSync('dist/build.json', `${JSON.stringify({ commit: buildCommit() })}\n`);
  const pages = spawnSync(process.execPath, ['scripts/build-console.mjs'], { stdio: 'inherit' });
  if (pages.status !== 0) process.exit(pages.status ?? 1);
}
