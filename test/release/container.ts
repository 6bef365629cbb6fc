/**
 * Processes of the built image without a container daemon: its file system, mounted read-only, as the root of a process in a
 * mount and a process namespace of its own (so it is process 1 there), with the user, environment and entry point that the
 * image names, and one volume. The network is this machine's. Needs root, buildah and util-linux.
 */
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { until } from '../support/until.ts';

const storage = ['--storage-driver', 'vfs'];
const buildah = (...words: readonly string[]): string =>
  execFileSync('buildah', [...storage, ...words], { encoding: 'utf8' }).trim();

export const canRunImages =
  process.getuid?.() === 0 &&
  ['buildah', 'mmdebstrap', 'unshare'].every((tool) => spawnSync(tool, ['--version']).status === 0);

export interface ImageConfig {
  readonly User: string;
  readonly Env: readonly string[];
  readonly Entrypoint: readonly string[];
  readonly Volumes: Readonly<Record<string, object>>;
  readonly WorkingDir: string;
  readonly Labels: Readonly<Record<string, string>>;
}

/** Everything is bound within the namespace alone, so nothing of it is left when the process has ended. */
const enter = `set -e
mount --bind "$1" "$1"
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
mount --bind "$2" "$1$3"
mount -o remount,bind,ro "$1"
root=$1 user=$4
shift 4
exec chroot --userspec="$user" "$root" "$@"`;

export interface Container<Ready> {
  readonly ready: Ready;
  stderr(): string;
  /** Signals the process itself, not what started it. */
  kill(signal: NodeJS.Signals): void;
  /** SIGTERM; resolves with the exit code. */
  stop(): Promise<number | null>;
}

export class Image {
  readonly config: ImageConfig;
  /** Where its file system is mounted. */
  readonly root: string;
  readonly #container: string;
  readonly #name: string;
  readonly #running = new Set<ChildProcess>();

  constructor(name: string) {
    this.#name = name;
    this.config = JSON.parse(buildah('inspect', '--type', 'image', name)).OCIv1.config;
    this.#container = buildah('from', '--pull-never', name);
    this.root = buildah('mount', this.#container);
  }

  /** The words that run one command in the image, with this folder as its volume. */
  #words(volume: string, env: Readonly<Record<string, string>>, words: readonly string[]): string[] {
    const [path = ''] = Object.keys(this.config.Volumes);
    const settings = [...this.config.Env, ...Object.entries(env).map(([name, value]) => `${name}=${value}`)];
    const inside = ['env', '-i', '-C', this.config.WorkingDir, ...settings, ...words];
    const namespaces = ['--mount', '--pid', '--fork', '--kill-child'];
    return [...namespaces, 'sh', '-c', enter, 'sh', this.root, volume, path, this.config.User, ...inside];
  }

  /** A volume as an orchestrator makes it: a folder of the image's user. */
  volume(path: string): string {
    mkdirSync(path, { recursive: true });
    const [user, group] = this.config.User.split(':').map(Number) as [number, number];
    chownSync(path, user, group);
    return path;
  }

  /** Runs a command of the image's file system to its end. */
  run(volume: string, words: readonly string[]): { code: number | null; stdout: string; stderr: string } {
    const { status, stdout, stderr } = spawnSync('unshare', this.#words(volume, {}, words), {
      encoding: 'utf8',
    });
    return { code: status, stdout, stderr };
  }

  /** Starts the entry point, and resolves once the process is ready. */
  async start<Ready>(
    volume: string,
    args: readonly string[],
    env: Readonly<Record<string, string>>,
  ): Promise<Container<Ready>> {
    const readyFile = `ready-${Math.random().toString(36).slice(2)}.json`;
    const [path = ''] = Object.keys(this.config.Volumes);
    const words = [...this.config.Entrypoint, ...args, '--ready-file', `${path}/${readyFile}`];
    const child = spawn('unshare', this.#words(volume, env, words), { stdio: ['ignore', 'ignore', 'pipe'] });
    this.#running.add(child);
    let stderr = '';
    child.stderr?.on('data', (chunk: Buffer) => {
      stderr = (stderr + chunk.toString()).slice(-20_000);
    });
    const ended = once(child, 'exit').then(([code]) => {
      this.#running.delete(child);
      return code as number | null;
    });
    const file = join(volume, readyFile);
    await until(() => {
      if (child.exitCode !== null) throw new Error(`${args[0]} ended before it served: ${stderr}`);
      return existsSync(file);
    }, 60_000);
    const kill = (signal: NodeJS.Signals) => process.kill(processOf(child), signal);
    const stop = () => {
      kill('SIGTERM');
      return ended;
    };
    return { ready: JSON.parse(readFileSync(file, 'utf8')), stderr: () => stderr, kill, stop };
  }

  /** Ends all processes, and removes the mounted file system and the image. */
  async close(): Promise<void> {
    await Promise.all(
      [...this.#running].map((child) => {
        const ended = once(child, 'exit');
        child.kill('SIGKILL');
        return ended;
      }),
    );
    buildah('rm', this.#container);
    buildah('rmi', this.#name);
  }
}

/** The first process of the namespace that this one made. */
function processOf({ pid }: ChildProcess): number {
  return Number(readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ')[0]);
}
