/**
 * Real processes of the built service over one log, in a folder of their own, on free ports. What all process tests need of a
 * fleet is here; a suite with operations of its own extends it.
 */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DevAdmin } from '../../dev/dev-admin.ts';
import { binary, type Started, startProcess } from './processes.ts';

export const operatorToken = 'process-fleet-operator-token';
export const gatewayToken = 'process-fleet-gateway-token';

export type Plane = Started<{ readonly admin: string; readonly metrics: string; readonly pid: number }>;
export type GatewayProcess = Started<{
  readonly api: string;
  readonly metrics: string;
  readonly pid: number;
}>;
type Env = Readonly<Record<string, string | undefined>>;

export interface ProcessFleetOptions {
  /** An embedded log in the fleet's folder where none is given. */
  readonly logUrl?: string | undefined;
  readonly env?: Env;
  /** Until a process serves. */
  readonly timeoutMs?: number;
}

/** How a command line ended. */
export interface CliRun {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export class ProcessFleet {
  readonly dir = mkdtempSync(join(tmpdir(), 'headgate-fleet-'));
  readonly logFolder = join(this.dir, 'log');
  readonly logUrl: string;
  readonly env: Env;
  readonly #timeoutMs: number | undefined;
  readonly #running: Started<unknown>[] = [];

  constructor({ logUrl, env, timeoutMs }: ProcessFleetOptions = {}) {
    this.logUrl = logUrl ?? `sqlite:${this.logFolder}`;
    this.env = {
      HEADGATE_LOG: this.logUrl,
      HEADGATE_OPERATOR_TOKEN: operatorToken,
      HEADGATE_GATEWAY_TOKEN: gatewayToken,
      ...env,
    };
    this.#timeoutMs = timeoutMs;
  }

  /** A process with a data folder; the same name means the same folder. A flag that is given again replaces the first. */
  serve<Ready>(
    kind: 'control-plane' | 'gateway',
    name: string,
    more: readonly string[] = [],
    env: Env = {},
  ): Promise<Started<Ready>> {
    const own = ['--data', join(this.dir, name), '--name', name, '--port', '0', '--metrics-port', '0'];
    const drain = kind === 'gateway' ? ['--drain-delay', '0', '--drain-timeout', '5'] : [];
    return this.start(name, [kind, ...own, ...drain, ...more], env);
  }

  simNode(name: string, ...more: string[]): Promise<Started<{ readonly url: string }>> {
    return this.start(name, ['sim-node', '--port', '0', ...more]);
  }

  admin({ ready }: Started<{ readonly admin: string }>): DevAdmin {
    return new DevAdmin(ready.admin, operatorToken);
  }

  async start<Ready>(name: string, args: readonly string[], env: Env = {}): Promise<Started<Ready>> {
    const started = await startProcess<Ready>({
      dir: this.dir,
      name,
      args,
      env: { ...this.env, ...env },
      ...(this.#timeoutMs !== undefined && { timeoutMs: this.#timeoutMs }),
    });
    this.#running.push(started);
    return started;
  }

  /** Runs `headgate …` to its end, as the operator. */
  cli(args: readonly string[], env: Env = {}, timeoutMs = 180_000): Promise<CliRun> {
    const own = { HEADGATE_TOKEN: operatorToken, HEADGATE_LOG_LEVEL: 'fatal', NO_COLOR: '1' };
    const options = {
      cwd: this.dir,
      env: { ...process.env, ...this.env, ...own, ...env },
      timeout: timeoutMs,
    };
    return new Promise((resolve) => {
      execFile(process.execPath, [binary, ...args], options, (error, stdout, stderr) =>
        resolve({ code: error === null ? 0 : Number(error.code ?? -1), stdout, stderr }),
      );
    });
  }

  /** Ends all processes, those that are suspended too, and removes their folder. */
  async close(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    for (const { child } of this.#running) child.kill('SIGCONT');
    await Promise.all(this.#running.map((one) => one.end(signal)));
    rmSync(this.dir, { recursive: true, force: true });
  }
}

/** The cookie of a session in a console, by a link that a call of the admin API makes. */
export async function consoleCookie(
  admin: DevAdmin,
  { console: base, path }: { readonly console: string; readonly path: string },
): Promise<string> {
  const { url } = (await admin.call('POST', path, {})) as { readonly url: string };
  const response = await fetch(`${base}/api/session`, {
    method: 'POST',
    headers: { origin: base, 'content-type': 'application/json' },
    body: JSON.stringify({ link: url.split('#')[1] }),
  });
  await response.text();
  return response.headers.get('set-cookie')?.split(';')[0] ?? '';
}

export const organisation = 'acme';
export const model = 'echo-small';

/** One organisation on a tier without limits, and the pool's one node with one model. */
export function smallFleet(nodeUrl: string): Parameters<DevAdmin['apply']>[0] {
  return {
    version: 1,
    models: [{ id: model, family: 'echo', weight: 1 }],
    tiers: [{ id: 'Wide', models: '*' }],
    pool: { models: [model], nodes: [{ id: 'pool-1', url: nodeUrl, dialect: 'vllm' }] },
    organisations: [{ id: organisation, name: 'Acme', tier: 'Wide' }],
  };
}

/** The status of one completion; without a node any other status than 401 means that the key was accepted. */
export async function statusWith(api: string, key: string): Promise<number> {
  const response = await fetch(`${api}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, messages: [{ role: 'user', content: 'hello' }] }),
  });
  await response.text();
  return response.status;
}
