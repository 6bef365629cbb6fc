// Installs llama.cpp's server. Uses the server on the path, or else Debian's package in a private root that does not change
// the system. The package brings its own C library, so it also runs on older releases.
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { find, run } from './install-tools.mjs';

const suite = 'sid';
/** The build for which the table of differences was written. If Debian no longer offers it, the newest build is installed. */
const version = '1:0.7.0+dfsg-2';
const keyring = '/usr/share/keyrings/debian-archive-keyring.gpg';
const triplet = 'x86_64-linux-gnu';

export function install(folder) {
  const onPath = find('llama-server');
  if (onPath !== undefined) return { command: [onPath], env: {} };
  const root = join(folder, 'root');
  if (!existsSync(root)) unpack(folder, root);
  const libraries = join(root, 'usr/lib', triplet);
  const searched = [libraries, join(libraries, 'llama'), join(libraries, 'ggml')].join(':');
  return {
    command: [
      join(libraries, 'ld-linux-x86-64.so.2'),
      '--library-path',
      searched,
      join(root, 'usr/bin/llama-server'),
    ],
    // Must be set, because the program that runs is the C library's loader and not llama-server. This backend runs on every
    // processor with the same answers.
    env: { GGML_BACKEND_PATH: join(libraries, 'ggml/backends0/libggml-cpu-x64.so') },
  };
}

function unpack(folder, root) {
  const missing = ['apt-get', 'dpkg-deb'].filter((command) => find(command) === undefined);
  if (missing.length > 0 || !existsSync(keyring))
    throw new Error(
      'needs llama-server on the path, or Debian with apt-get, dpkg-deb and its archive keyring',
    );
  const architecture = run('dpkg', ['--print-architecture']).trim();
  if (architecture !== 'amd64') throw new Error(`needs llama-server on the path on ${architecture}`);
  const apt = join(folder, 'apt');
  rmSync(apt, { recursive: true, force: true });
  const env = { APT_CONFIG: configure(apt) };
  run('apt-get', ['-q', 'update'], { env });
  const download = (what) => run('apt-get', ['-q', '-y', '--download-only', 'install', what], { env });
  try {
    download(`llama.cpp-tools=${version}`);
  } catch {
    download('llama.cpp-tools');
  }
  const draft = `${root}.${process.pid}`;
  mkdirSync(draft, { recursive: true });
  const archives = join(apt, 'cache/archives');
  for (const name of readdirSync(archives).filter((entry) => entry.endsWith('.deb')))
    run('dpkg-deb', ['-x', join(archives, name), draft]);
  renameSync(draft, root);
  rmSync(apt, { recursive: true });
}

/** Configures a separate apt that knows one suite of this machine's mirror and no installed packages. */
function configure(apt) {
  const mirror = run('apt-get', ['indextargets', '--format', '$(REPO_URI)', 'Created-By: Packages'])
    .split('\n')
    .find((uri) => /\/debian\/?$/.test(uri));
  if (mirror === undefined) throw new Error('found no Debian mirror in the sources of apt');
  for (const path of ['etc', 'state/lists/partial', 'cache/archives/partial'])
    mkdirSync(join(apt, path), { recursive: true });
  // Copies only the settings with which this machine reaches mirrors.
  const reach = run('apt-config', ['dump'])
    .split('\n')
    .filter((line) => /^Acquire::https?::/i.test(line));
  writeFileSync(join(apt, 'status'), '');
  writeFileSync(join(apt, 'etc/sources.list'), `deb [signed-by=${keyring}] ${mirror} ${suite} main\n`);
  const lines = [
    ...reach,
    `Dir::Etc "${apt}/etc";`,
    `Dir::State "${apt}/state";`,
    `Dir::State::status "${apt}/status";`,
    `Dir::Cache "${apt}/cache";`,
    'APT::Install-Recommends "false";',
    'APT::Sandbox::User "root";',
    'Acquire::Check-Valid-Until "false";',
    'Acquire::Languages "none";',
  ];
  const file = join(apt, 'apt.conf');
  writeFileSync(file, `${lines.join('\n')}\n`);
  return file;
}
