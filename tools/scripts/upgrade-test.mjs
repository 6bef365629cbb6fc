// `npm run upgrade-test`: upgrades a running fleet under load from the previous version to this build, one process at a time,
// and then downgrades it. The previous version is built from this repository's history and installed once, in .cache.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';

/** Commit that was released as version 0.2.0. */
const before = '21f2b6ad';
const root = resolve(import.meta.dirname, '../..');
const folder = join(root, '.cache', `headgate-${before}`);

function run(command, args, options = {}) {
  const { status, error } = spawnSync(command, args, { cwd: root, stdio: 'inherit', ...options });
  if (error) console.error(error.message);
  return status ?? 1;
}

/** Installs the previous version. An installation that was interrupted is never reused. */
function provide() {
  if (existsSync(join(folder, 'dist/cli/headgate.js'))) return 0;
  const part = `${folder}.part`;
  rmSync(part, { recursive: true, force: true });
  mkdirSync(part, { recursive: true });
  const status =
    run('sh', ['-c', `git archive ${before} | tar -x -C '${part}'`]) ||
    run('npm', ['ci', '--no-audit', '--no-fund'], { cwd: part });
  if (status === 0) renameSync(part, folder);
  return status;
}

process.exit(
  provide() ||
    (process.argv.includes('--provide')
      ? 0
      : run(process.execPath, ['tools/scripts/build.mjs']) ||
        run(process.execPath, ['dist/test/upgrade/main.js', join(folder, 'dist/cli/headgate.js')])),
);
