// The commit of the sources in the working folder, for the version of a build.
import { spawnSync } from 'node:child_process';
import { realpathSync } from 'node:fs';

/**
 * `gCOMMIT`, with `.changed` where files of the commit were changed; undefined without git, and in the folder of another project. A
 * build without the folder of git, such as that of the image, is given it.
 */
export function buildCommit() {
  const given = process.env.HEADGATE_BUILD_REVISION ?? '';
  if (given !== '') return /^[0-9a-f]{7,64}$/.test(given) ? `g${given.slice(0, 7)}` : undefined;
  const git = (...words) => spawnSync('git', words, { encoding: 'utf8' });
  const top = git('rev-parse', '--show-toplevel');
  if (top.status !== 0 || realpathSync(top.stdout.trim()) !== realpathSync('.')) return undefined;
  const head = git('rev-parse', '--short=7', 'HEAD');
  if (head.status !== 0) return undefined;
  const isChanged = git('status', '--porcelain', '--untracked-files=no').stdout !== '';
  return `g${head.stdout.trim()}${isChanged ? '.changed' : ''}`;
}
