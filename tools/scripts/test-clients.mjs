// Tries the gateway with real client libraries: installs them apart from the project, builds the service, then runs the
// clients suite. Needs Python 3 with venv, and the npm and PyPI registries the first time. Arguments are handed to vitest.
import { spawnSync } from 'node:child_process';

const steps = [
  ['node', ['test/clients/install.mjs']],
  ['npm', ['run', 'build']],
  ['npx', ['--no-install', 'vitest', 'run', '--project', 'clients', ...process.argv.slice(2)]],
];
for (const [command, args] of steps) {
  const { status } = spawnSync(command, args, { stdio: 'inherit' });
  if (status !== 0) process.exit(status ?? 1);
}
