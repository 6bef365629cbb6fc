// What the installers share: running a command to its end, and finding one.
import { spawnSync } from 'node:child_process';

/** Throws with the end of what the command wrote to stderr. */
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

/** Where the command stands on the path; undefined where it does not. */
export function find(command) {
  const { status, stdout } = spawnSync('sh', ['-c', `command -v ${command}`], { encoding: 'utf8' });
  return status === 0 ? stdout.trim() : undefined;
}
