// Tests the gateway with Ollama, vLLM and SGLang (`npm run test:engines -- vllm` selects one): installs them into .cache and
// runs the engines suite. The first run takes gigabytes of disk space and tens of minutes; later runs take some minutes.
import { spawnSync } from 'node:child_process';

const engines = process.argv.length > 2 ? process.argv.slice(2) : ['ollama', 'vllm', 'sglang'];
let failed = false;
for (const engine of engines) {
  const steps = [
    ['node', ['test/engines/install.mjs', engine]],
    ['npx', ['--no-install', 'vitest', 'run', '--project', 'engines', `${engine}.engines`]],
  ];
  // If one engine cannot be installed, the others are tested anyway.
  const broken = steps.find(([command, args]) => spawnSync(command, args, { stdio: 'inherit' }).status !== 0);
  if (broken) process.stderr.write(`\n*** ${engine}: ${broken[0]} ${broken[1].join(' ')} failed ***\n`);
  failed ||= broken !== undefined;
}
process.exit(failed ? 1 : 0);
