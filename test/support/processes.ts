/** Starts real processes of the built service, each with a ready file, and ends them by process id after a test. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { scaledMs } from './budget.ts';

/** Tests run from source files, but benches run from the build. */
const built = import.meta.url.includes('/dist/test/')
  ? '../../cli/headgate.js'
  : '../../dist/cli/headgate.js';
export const binary = new URL(built, import.meta.url).pathname;
/** Path of the simulated node that can fail on demand (test/simulator). */
export const faultyNodeBinary = join(binary, '../../test/simulator/main.js');

export interface Launch<Ready> {
  readonly child: ChildProcess;
  readonly ready: Ready;
  /** Returns everything that the process has written to stderr so far. */
  stderr(): string;
  /** Sends the signal and waits until the process has ended. */
  end(signal?: NodeJS.Signals): Promise<void>;
}

export interface StartOptions {
  /** Folder in which the process writes its ready file. */
  readonly dir: string;
  readonly name: string;
  readonly args: readonly string[];
  /** Environment variables. Those set to undefined are unset. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly timeoutMs?: number;
  /** Path of another build's `headgate` command. */
  readonly binary?: string;
  /** A command that runs the process, such as `ip netns exec NAME`, and then becomes it. */
  readonly within?: readonly string[];
}

/** Starts `headgate …` and resolves once its ready file exists. If the process ends first, rejects with its stderr. */
export async function startProcess<Ready>(options: StartOptions): Promise<Launch<Ready>> {
  const readyFile = join(options.dir, `${options.name}.${Math.random().toString(36).slice(2)}.ready.json`);
  const [command = process.execPath, ...words] = [...(options.within ?? []), process.execPath];
  const child = spawn(
    command,
    [...words, options.binary ?? binary, ...options.args, '--ready-file', readyFile],
    {
      env: {
        ...process.env,
        HEADGATE_LOG_LEVEL: 'warn',
        HEADGATE_DRAIN_DELAY: '0',
        HEADGATE_GATEWAY_TOKEN: 'gateway-token-of-the-tests',
        ...options.env,
      },
      stdio: ['ignore', 'ignore', 'pipe'],
    },
  );
  let stderr = '';
  child.stderr?.on('data', (chunk: Buffer) => {
    stderr = (stderr + chunk.toString()).slice(-20_000);
  });
  const exited = once(child, 'exit');
  const until = performance.now() + scaledMs(options.timeoutMs ?? 30_000);
  while (!existsSync(readyFile)) {
    if (child.exitCode !== null || child.signalCode !== null)
      throw new Error(`${options.name} ended before it served: ${stderr}`);
    if (performance.now() > until) {
      child.kill('SIGKILL');
      throw new Error(`${options.name} did not serve in time: ${stderr}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return {
    child,
    ready: JSON.parse(readFileSync(readyFile, 'utf8')) as Ready,
    stderr: () => stderr,
    end: async (signal = 'SIGTERM') => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill(signal);
      await exited;
    },
  };
}

/** Starts `headgate dev` on free ports, with its own tokens, and with its data and context file in this folder. */
export function startDev<Ready>(
  dir: string,
  args: readonly string[] = [],
  env: StartOptions['env'] = {},
): Promise<Launch<Ready>> {
  mkdirSync(dir, { recursive: true });
  const ports = ['--port', '0', '--admin-port', '0', '--metrics-port', '0'];
  return startProcess<Ready>({
    ...{ dir, name: 'dev', args: ['dev', '--data', join(dir, 'data'), ...ports, ...args], timeoutMs: 60_000 },
    env: { HEADGATE_CONTEXT: join(dir, 'context.json'), HEADGATE_GATEWAY_TOKEN: undefined, ...env },
  });
}
