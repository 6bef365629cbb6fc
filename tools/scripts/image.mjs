// Builds the image: `npm run image [-- --tag NAME] [--base IMAGE | --stand-in]`. It uses docker, podman or buildah, whichever
// is installed. If no image registry can be reached, `--stand-in` builds a base here: Debian with mmdebstrap (as root), and
// Node and npm from npm packages. Prints the size and the layers; the last line is the name of the image.
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, realpathSync, renameSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';

const root = resolve(import.meta.dirname, '../..');
const { values } = parseArgs({
  options: {
    tag: { type: 'string', default: 'headgate' },
    base: { type: 'string' },
    'stand-in': { type: 'boolean', default: false },
  },
});

function fail(message) {
  console.error(message);
  process.exit(1);
}

function run(command, args) {
  console.error(`$ ${command} ${args.join(' ')}`);
  const { status, error } = spawnSync(command, args, { cwd: root, stdio: ['ignore', 2, 2] });
  if (status !== 0) fail(error?.message ?? `${command} ended with ${status}.`);
}

const output = (command, args) => execFileSync(command, args, { cwd: root, encoding: 'utf8' }).trim();
const works = (command, args) => spawnSync(command, args, { stdio: 'ignore' }).status === 0;

/** This storage driver works without a daemon and without user namespaces, which containers and CI machines rarely have. */
const storage = ['--storage-driver', 'vfs'];
const buildah = (...words) => run('buildah', [...storage, ...words]);
const builders = {
  docker: { isThere: () => works('docker', ['info']), build: ['build'] },
  podman: { isThere: () => works('podman', ['info']), build: ['build'] },
  buildah: {
    isThere: () => works('buildah', ['--version']),
    build: [...storage, 'build', '--isolation', 'chroot', '--network', 'host', '--format', 'docker'],
  },
};
const name = Object.keys(builders).find((each) => builders[each].isThere());
if (!name) fail('npm run image needs docker, podman or buildah (Debian: apt-get install buildah).');

/** Installs Node 24 for this platform and npm. Returns their node_modules folder. */
function nodePackages() {
  const prefix = join(root, '.cache', 'image-node-24');
  const platform = `node-${process.platform}-${process.arch}`;
  if (!existsSync(join(prefix, 'node_modules', platform))) {
    mkdirSync(prefix, { recursive: true });
    run('npm', ['install', '--prefix', prefix, '--no-save', `${platform}@24`, 'npm@11']);
  }
  const folder = join(prefix, 'node_modules');
  return { node: realpathSync(join(folder, platform, 'bin')), npm: realpathSync(join(folder, 'npm')) };
}

/** Builds a base image from Debian's smallest package set and Node, and caches it for the next build. */
function standIn() {
  if (name !== 'buildah') fail('--stand-in needs buildah (Debian: apt-get install buildah mmdebstrap).');
  const image = 'localhost/headgate-base';
  if (works('buildah', [...storage, 'inspect', '--type', 'image', image])) return image;
  const archive = join(root, '.cache', 'image-base.tar');
  if (!existsSync(archive)) {
    mkdirSync(join(root, '.cache'), { recursive: true });
    run('mmdebstrap', ['--mode=root', '--variant=minbase', 'bookworm', `${archive}.part.tar`]);
    renameSync(`${archive}.part.tar`, archive);
  }
  const { node, npm } = nodePackages();
  const container = output('buildah', [...storage, 'from', 'scratch']);
  const link = ['ln', '-s', '../lib/node_modules/npm/bin/npm-cli.js', '/usr/local/bin/npm'];
  buildah('add', '--quiet', container, archive, '/');
  buildah('add', '--quiet', container, node, '/usr/local/bin');
  buildah('add', '--quiet', container, npm, '/usr/local/lib/node_modules/npm');
  buildah('run', '--isolation', 'chroot', container, '--', ...link);
  buildah('commit', '--quiet', '--rm', container, image);
  return image;
}

/** Lets the build read the certificate authority of a proxy in front of the package registry. */
function authority() {
  const path = process.env.NODE_EXTRA_CA_CERTS;
  if (name === 'docker' || !path || !existsSync(path)) return [];
  const inside = '/run/registry-authority.pem';
  return ['--volume', `${realpathSync(path)}:${inside}:ro`, '--build-arg', `NODE_EXTRA_CA_CERTS=${inside}`];
}

function report() {
  if (name !== 'buildah') {
    run(name, ['history', values.tag]);
    return;
  }
  const folder = join(root, '.cache', 'image');
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  buildah('push', '--quiet', values.tag, `dir:${folder}`);
  const manifest = JSON.parse(readFileSync(join(folder, 'manifest.json'), 'utf8'));
  const config = JSON.parse(readFileSync(join(folder, manifest.config.digest.split(':')[1]), 'utf8'));
  const steps = config.history.filter(({ empty_layer: isEmpty }) => !isEmpty);
  const megabytes = (bytes) => `${(bytes / 1e6).toFixed(1).padStart(7)} MB`;
  console.log(`${megabytes(manifest.layers.reduce((sum, { size }) => sum + size, 0))}  compressed, in all`);
  for (const [index, { size }] of manifest.layers.entries())
    console.log(`${megabytes(size)}  ${steps[index]?.created_by?.slice(0, 90) ?? ''}`);
  rmSync(folder, { recursive: true });
}

const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const revision = works('git', ['rev-parse', 'HEAD']) ? output('git', ['rev-parse', 'HEAD']) : 'unknown';
const base = values['stand-in'] ? standIn() : values.base;
const settings = { VERSION: version, REVISION: revision, ...(base && { BASE: base }) };
const buildArguments = Object.entries(settings).flatMap(([key, value]) => ['--build-arg', `${key}=${value}`]);
run(name, [...builders[name].build, ...buildArguments, ...authority(), '--tag', values.tag, '.']);
report();
console.log(values.tag);
