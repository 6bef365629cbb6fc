/**
 * Runs processes of the built image without a container daemon. The image's file system is mounted read-only as the root of a
 * process in private mount and process namespaces, where it is process 1. The process gets the user, environment and entry
 * point from the image, one volume, and this machine's network. Needs root, buildah and util-linux.
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

/** Mounts everything inside the namespace only, so that nothing remains after the process has ended. */
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
  /** Sends a signal to the process itself and not to its launcher. */
  kill(signal: NodeJS.Signals): void;
  /** Sends SIGTERM and resolves with the exit code. */
  stop(): Promise<number | null>;
}

export class Image {
  readonly config: ImageConfig;
  /** Mount point of the image's file system. */
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

  /** Returns the arguments that run a command in the image, with this folder as its volume. */
  #words(volume: string, env: Readonly<Record<string, string>>, words: readonly string[]): string[] {
    const [path = ''] = Object.keys(this.config.Volumes);
    const settings = [...this.config.Env, ...Object.entries(env).map(([name, value]) => `${name}=${value}`)];
    const inside = ['env', '-i', '-C', this.config.WorkingDir, ...settings, ...words];
    const namespaces = ['--mount', '--pid', '--fork', '--kill-child'];
    return [...namespaces, 'sh', '-c', enter, 'sh', this.root, volume, path, this.config.User, ...inside];
  }

  /** Makes a volume as an orchestrator does: a folder that belongs to the image's user. */
  volume(path: string): string {
    mkdirSync(path, { recursive: true });
    const [user, group] = this.config.User.split(':').map(Number) as [number, number];
    chownSync(path, user, group);
    return path;
  }

  /** Runs a command in the image's file system to completion. */
  run(volume: string, words: readonly string[]): { code: number | null; stdout: string; stderr: string } {
    const { status, stdout, stderr } = spawnSync('unshare', this.#words(volume, {}, words), {
      encoding: 'utf8',
    });
    return { code: status, stdout, stderr };
  }

  /** Starts the entry point and resolves once the process is ready. */
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

  /** Ends all processes, unmounts the file system and removes the image. */
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

/** Returns the first process in the namespace that this child process created. */
function processOf({ pid }: ChildProcess): number {
  return Number(readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ')[0]);
}
