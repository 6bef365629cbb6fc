// Helpers of the installers that run a command, find a command, and skip what is already installed.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Runs a command to completion. If it fails, throws an error with the end of its stderr. */
export function run(command, args, options = {}) {
  const { status, error, stdout, stderr } = spawnSync(command, args, {
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
    ...options,
    env: { ...process.env, ...options.env },
  });
  if (status === 0) return stdout ?? '';
  const words = (error?.message ?? stderr ?? '').trim().split('\n').slice(-5).join('\n');
  throw new Error(`${command} ${args.slice(0, 3).join(' ')} … failed: ${words}`);
}

/** Returns the path of a command, or undefined if it is not on the path. */
export function find(command) {
  const { status, stdout } = spawnSync('sh', ['-c', `command -v ${command}`], { encoding: 'utf8' });
  return status === 0 ? stdout.trim() : undefined;
}

/** Calls `install` unless the note in `folder` says that the wanted version is already there. */
export function keep(folder, wanted, install) {
  const note = join(folder, '.installed');
  if (existsSync(note) && readFileSync(note, 'utf8') === wanted) return;
  install();
  writeFileSync(note, wanted);
}

/** Returns the command for Python 3.12, from the path or from pyenv. */
export function python312() {
  if (spawnSync('python3.12', ['--version']).status === 0) return 'python3.12';
  const versions = find('pyenv') === undefined ? [] : run('pyenv', ['versions', '--bare']).split('\n');
  const version = versions.find((one) => one.trim().startsWith('3.12.'));
  if (version === undefined) throw new Error('needs Python 3.12');
  return join(run('pyenv', ['root']).trim(), 'versions', version.trim(), 'bin/python3.12');
}

export function sitePackages(venv) {
  const script = 'import sysconfig; print(sysconfig.get_paths()["purelib"])';
  return run(join(venv, 'bin/python'), ['-c', script]).trim();
}
