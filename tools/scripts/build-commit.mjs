// Finds the commit of the sources in the working folder. It becomes part of a build's version.
import { spawnSync } from 'node:child_process';
import { realpathSync } from 'node:fs';

/**
 * Returns `gCOMMIT`, with `.changed` appended if tracked files were modified, or undefined outside the project's git
 * repository. A build without a git folder, such as the image build, reads the commit from a variable.
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
