// Installs the client libraries for the client suite into .cache/clients: npm packages from the lock file next to this
// script, and Python packages into one environment per group. Keeps packages that are already installed in the right version.
import { spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const cache = resolve(here, '../../.cache/clients');

// openai 3 needs an environment apart from the frameworks, because LangChain requires openai below 3.
const environments = {
  'python-openai1': ['openai==1.109.1'],
  'python-openai3': ['openai==3.52.0'],
  'python-frameworks': [
    'langchain-openai==1.7.3',
    'llama-index-llms-openai-like==0.8.1',
    'llama-index-embeddings-openai-like==0.4.0',
    'llama-index-llms-openai==0.8.3',
  ],
  // These packages require openai above 3, so they cannot share the frameworks' environment.
  'python-responses': ['openai-agents==0.24.0', 'pydantic-ai-slim[openai]==2.68.0'],
  'python-anthropic0': ['anthropic==0.125.0'],
  'python-anthropic2': ['anthropic==2.11.0', 'langchain-anthropic==1.7.7'],
};

function run(command, args, cwd = cache) {
  const { status, error } = spawnSync(command, args, { cwd, stdio: 'inherit' });
  if (status === 0) return;
  process.stderr.write(`install: ${command} ${args.join(' ')} failed${error ? `: ${error.message}` : ''}\n`);
  process.exit(1);
}

/** Calls `install` unless the note in `folder` already lists exactly the wanted packages. */
function keep(folder, wanted, install) {
  const note = join(folder, '.installed');
  if (existsSync(note) && readFileSync(note, 'utf8') === wanted) return;
  mkdirSync(folder, { recursive: true });
  install();
  writeFileSync(note, wanted);
}

const npm = join(cache, 'npm');
keep(npm, readFileSync(join(here, 'package-lock.json'), 'utf8'), () => {
  for (const file of ['package.json', 'package-lock.json']) copyFileSync(join(here, file), join(npm, file));
  // Some packages require Node 22 although they also run on Node 20, as the suite shows.
  const flags = ['--engine-strict=false', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];
  run('npm', ['ci', ...flags], npm);
});
for (const [name, packages] of Object.entries(environments)) {
  const folder = join(cache, name);
  keep(folder, packages.join('\n'), () => {
    run('python3', ['-m', 'venv', folder]);
    run(join(folder, 'bin/pip'), ['install', '--quiet', '--disable-pip-version-check', ...packages]);
  });
}
