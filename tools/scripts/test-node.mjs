// Runs every test on other versions of Node: `npm run test:node -- 22 24`. Each version is an npm package with the headers
// that the native module needs. Tests run in a copy of the project that includes its history, because some tests read it.
import { spawnSync } from 'node:child_process';
import { chmodSync, cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join, resolve } from 'node:path';

const root = resolve(import.meta.dirname, '../..');
const cache = join(root, '.cache');
const apart = new Set(['node_modules', 'dist', '.cache', '.headgate'].map((name) => join(root, name)));

function run(command, args, options) {
  const { status, error } = spawnSync(command, args, { stdio: 'inherit', ...options });
  if (error) console.error(error.message);
  return status === 0;
}

/** Installs a version of Node unless it is already installed. Returns its folder. */
function provide(version) {
  const prefix = join(cache, `node-${version}`);
  const name = `node-${process.platform}-${process.arch}`;
  mkdirSync(prefix, { recursive: true });
  const wanted = `${name}@${version}`;
  if (!run('npm', ['install', '--prefix', prefix, '--no-audit', '--no-fund', '--no-save', wanted]))
    return null;
  return join(prefix, 'node_modules', name);
}

function testOn(version) {
  const node = provide(version);
  if (!node) return false;
  const copy = mkdtempSync(join(tmpdir(), `headgate-node-${version}-`));
  try {
    // Let other users read the copy, because one test runs the build as another user.
    chmodSync(copy, 0o755);
    cpSync(root, copy, { recursive: true, filter: (path) => !apart.has(path) });
    mkdirSync(cache, { recursive: true });
    symlinkSync(cache, join(copy, '.cache'));
    const env = {
      ...process.env,
      PATH: `${join(node, 'bin')}${delimiter}${process.env.PATH}`,
      npm_config_nodedir: node,
    };
    const options = { cwd: copy, env };
    return (
      run('node', ['--version'], options) &&
      run('npm', ['ci'], options) &&
      run('npm', ['test', '--', '--all'], options)
    );
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}

const versions = process.argv.slice(2);
const results = (versions.length > 0 ? versions : ['22', '24']).map((version) => [version, testOn(version)]);
for (const [version, passed] of results) console.log(`Node ${version}: ${passed ? 'passed' : 'FAILED'}`);
process.exit(results.every(([, passed]) => passed) ? 0 : 1);
