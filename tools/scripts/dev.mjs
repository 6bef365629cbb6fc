// `npm run dev`: runs the whole service (`headgate dev`), and rebuilds and restarts it whenever a source file changes. All
// arguments are passed to the service. After a failed build, the old service keeps running until a build succeeds.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

const compiler = spawn(
  process.execPath,
  ['node_modules/typescript/bin/tsc', '--watch', '--preserveWatchOutput'],
  { stdio: ['ignore', 'pipe', 'inherit'] },
);
let service;
let restarting = Promise.resolve();

function start() {
  service = spawn(process.execPath, ['dist/cli/headgate.js', 'dev', ...process.argv.slice(2)], {
    stdio: 'inherit',
  });
}

/** Stops the service and resolves when it has ended. The service has one second to drain. */
async function stop() {
  if (!service || service.exitCode !== null || service.signalCode !== null) return;
  const ended = new Promise((resolve) => service.once('exit', resolve));
  service.kill('SIGTERM');
  // A second signal stops the service without waiting for the drain.
  const impatient = setTimeout(() => service.kill('SIGTERM'), 1000);
  await ended;
  clearTimeout(impatient);
}

createInterface({ input: compiler.stdout }).on('line', (line) => {
  console.log(line);
  if (/Found 0 errors/.test(line)) restarting = restarting.then(stop).then(start);
});

let stopping = false;
for (const signal of ['SIGINT', 'SIGTERM'])
  process.on(signal, async () => {
    if (stopping) return;
    stopping = true;
    compiler.kill();
    await restarting.then(stop);
    process.exit(0);
  });
compiler.on('exit', (code) => {
  if (!stopping) process.exit(code ?? 1);
});
