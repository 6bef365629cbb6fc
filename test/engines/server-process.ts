/**
 * Runs one real inference server as a process of its own: started as install.mjs noted, on a free loopback port, with its
 * output in a file. Some engines have helper processes that outlive them. So the server leads a process group, and the whole
 * group is ended.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, openSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

/** How to start an engine, as install.mjs noted it. */
export interface InstallNote {
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

export interface ServerPlan extends InstallNote {
  readonly args: readonly string[];
  /** Folder for the server's log. */
  readonly dir: string;
  readonly name: string;
  readonly port: number;
  /** Path that answers GET with 200 once the server is ready. */
  readonly readyPath: string;
  readonly startTimeoutMs: number;
}

const stopTimeoutMs = 20_000;

/** Reads how to start an installed engine. If it is not installed, throws an error that says how to install it. */
export function installed(name: string): InstallNote {
  const note = new URL(`../../.cache/engines/${name}/server.json`, import.meta.url).pathname;
  if (!existsSync(note))
    throw new Error(`${name} is not installed: run node test/engines/install.mjs ${name}`);
  return JSON.parse(readFileSync(note, 'utf8')) as InstallNote;
}

/** Returns a server of an installed engine on a free loopback port. The server is not started yet. */
export async function serverOf(
  engine: string,
  plan: Pick<ServerPlan, 'dir' | 'name' | 'args'> & Partial<Pick<ServerPlan, 'startTimeoutMs'>>,
): Promise<ServerProcess> {
  const port = await freePort();
  const args = [...plan.args, '--host', '127.0.0.1', '--port', String(port)];
  const usual = { readyPath: '/health', startTimeoutMs: 60_000 };
  return new ServerProcess({ ...installed(engine), ...usual, ...plan, args, port });
}

export class ServerProcess {
  readonly #plan: ServerPlan;
  #child: ChildProcess | undefined;

  constructor(plan: ServerPlan) {
    this.#plan = plan;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#plan.port}`;
  }

  get isRunning(): boolean {
    return this.#child !== undefined && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  async start(): Promise<void> {
    const { command, args, env, dir, name, readyPath, startTimeoutMs } = this.#plan;
    const log = join(dir, `${name}.log`);
    const out = openSync(log, 'a');
    const [program = '', ...words] = [...command, ...args];
    const child = spawn(program, words, {
      env: { ...process.env, ...env },
      stdio: ['ignore', out, out],
      detached: true,
    });
    child.on('error', () => undefined);
    this.#child = child;
    process.once('exit', this.#leaveNothing);
    const until = performance.now() + startTimeoutMs;
    while (!(await answers(this.url + readyPath))) {
      const late = performance.now() > until;
      if (this.isRunning && child.pid !== undefined && !late) {
        await pause(50);
        continue;
      }
      await this.end();
      throw new Error(
        `${name} ${late ? 'did not serve in time' : 'ended'}: ${readFileSync(log, 'utf8').slice(-3000)}`,
      );
    }
  }

  /** Signals only the server itself, as a supervisor would. */
  signal(signal: NodeJS.Signals): void {
    this.#child?.kill(signal);
  }

  /** Resolves once the server itself has ended. */
  async ended(): Promise<void> {
    if (this.#child !== undefined && this.isRunning) await once(this.#child, 'exit');
  }

  /** Kills the server and all its helpers with kill -9. */
  async kill(): Promise<void> {
    this.#signalGroup('SIGKILL');
    process.off('exit', this.#leaveNothing);
    await this.ended();
  }

  /** Asks the server to stop, and kills it if it does not. */
  async end(): Promise<void> {
    if (this.isRunning) this.signal('SIGTERM');
    const waiting = new AbortController();
    const late = pause(stopTimeoutMs, undefined, { signal: waiting.signal }).catch(() => undefined);
    await Promise.race([this.ended(), late]);
    waiting.abort();
    await this.kill();
  }

  readonly #leaveNothing = (): void => this.#signalGroup('SIGKILL');

  #signalGroup(signal: NodeJS.Signals): void {
    const pid = this.#child?.pid;
    if (pid === undefined) return;
    try {
      process.kill(-pid, signal);
    } catch {
      // All processes of the group have already ended.
    }
  }
}

async function answers(url: string): Promise<boolean> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(5000) });
    await response.body?.cancel();
    return response.status === 200;
  } catch {
    return false;
  }
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, 'close');
  return port;
}
