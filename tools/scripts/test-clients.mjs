// Tests the gateway with real client libraries. It installs them outside the project, builds the service and runs the clients
// suite. It needs Python 3 with venv and, the first time, the npm and PyPI registries. Arguments are passed to vitest.
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
