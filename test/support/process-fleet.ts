/**
 * Runs the built service as real processes on one log, in a folder of their own, on free ports. Contains the operations that
 * all process tests need. Suites that need more extend the class.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Fleet } from '../../schemas/events/fleet.ts';
import { DevAdmin } from '../../tools/dev/dev-admin.ts';
import type { Behaviour } from '../simulator/behaviour.ts';
import { operatorToken } from './ask-admin.ts';
import { type CommandRun, runCommand } from './commands.ts';
import { binary, faultyNodeBinary, type Launch, startProcess } from './processes.ts';

export { operatorToken };
export const gatewayToken = 'process-fleet-gateway-token';

/** A control plane with a client that calls its admin API as the operator. */
export type Plane = Launch<{ readonly admin: string; readonly metrics: string; readonly pid: number }> & {
  readonly admin: DevAdmin;
};
export type GatewayProcess = Launch<{
  readonly api: string;
  readonly metrics: string;
  readonly pid: number;
}>;
type Env = Readonly<Record<string, string | undefined>>;
/** Additional flags and environment variables for a process. */
export interface More {
  readonly flags?: readonly string[];
  readonly env?: Env;
}

export interface ProcessFleetOptions {
  /** Address of the log. Defaults to an embedded log in the fleet's folder. */
  readonly logUrl?: string | undefined;
  readonly env?: Env;
  /** Longest time until a process must be ready, in ms. */
  readonly timeoutMs?: number;
  /** Path of another build's `headgate` command, used for all started processes. */
  readonly build?: string;
}

export interface AgentOptions {
  readonly node: string;
  readonly token: string;
  readonly engine: string;
  readonly planes: readonly string[];
  readonly flags?: readonly string[];
}

export interface StandOptions {
  /** Builds the fleet file from the nodes' addresses. Defaults to a small fleet. */
  readonly document?: (...nodeUrls: string[]) => Fleet;
  /** Flags of each simulated node. Defaults to one node that answers without delay. */
  readonly nodes?: readonly (readonly string[])[];
  readonly planes?: number;
  readonly gateways?: number;
  readonly plane?: More;
  readonly gateway?: More | ((plane: Plane) => More);
}

/** A running fleet. `plane`, `node`, `gateway` and `key` are the first items of the lists, for tests that need only one. */
export interface Standing {
  readonly plane: Plane;
  readonly planes: readonly Plane[];
  readonly admin: DevAdmin;
  readonly node: Launch<{ readonly url: string }>;
  readonly nodes: readonly Launch<{ readonly url: string }>[];
  readonly gateway: GatewayProcess;
  readonly gateways: readonly GatewayProcess[];
  /** API key of the first organisation. */
  readonly key: string;
  readonly keys: Readonly<Record<string, string>>;
}

export class ProcessFleet {
  readonly dir = mkdtempSync(join(tmpdir(), 'headgate-fleet-'));
  readonly logFolder = join(this.dir, 'log');
  readonly logUrl: string;
  readonly env: Env;
  readonly #timeoutMs: number | undefined;
  readonly #build: string;
  readonly #running: Launch<unknown>[] = [];

  constructor({ logUrl, env, timeoutMs, build = binary }: ProcessFleetOptions = {}) {
    this.logUrl = logUrl ?? `sqlite:${this.logFolder}`;
    this.env = {
      HEADGATE_LOG: this.logUrl,
      HEADGATE_OPERATOR_TOKEN: operatorToken,
      HEADGATE_GATEWAY_TOKEN: gatewayToken,
      ...env,
    };
    this.#timeoutMs = timeoutMs;
    this.#build = build;
  }

  /** Starts a process. Processes with the same name use the same data folder. A repeated flag overrides the earlier one. */
  serve<Ready = Plane['ready']>(
    ...args: readonly ['control-plane', string, (readonly string[])?, Env?]
  ): Promise<Launch<Ready> & Pick<Plane, 'admin'>>;
  serve<Ready = GatewayProcess['ready']>(
    ...args: readonly ['gateway', string, (readonly string[])?, Env?]
  ): Promise<Launch<Ready>>;
  async serve(
    kind: 'control-plane' | 'gateway',
    name: string,
    more: readonly string[] = [],
    env: Env = {},
  ): Promise<object> {
    const own = ['--data', join(this.dir, name), '--name', name, '--port', '0', '--metrics-port', '0'];
    const drain = kind === 'gateway' ? ['--drain-delay', '0', '--drain-timeout', '5'] : [];
    const started = await this.start<Plane['ready']>(name, [kind, ...own, ...drain, ...more], env);
    return kind === 'gateway' ? started : { ...started, admin: this.admin(started) };
  }

  startPlane(name = 'plane', { flags, env }: More = {}): Promise<Plane> {
    return this.serve('control-plane', name, flags, env);
  }

  startGateway(name = 'gateway', { flags, env }: More = {}): Promise<GatewayProcess> {
    return this.serve('gateway', name, flags, env);
  }

  /** Starts a node's agent, which tries the control planes in the given order. */
  startAgent({
    node,
    token,
    engine,
    planes,
    flags = [],
  }: AgentOptions): Promise<Launch<{ metrics: string }>> {
    const where = planes.flatMap((url) => ['--control-plane', url]);
    const args = [
      'node-agent',
      '--node',
      node,
      '--engine',
      engine,
      ...where,
      '--metrics-port',
      '0',
      ...flags,
    ];
    return this.start(`agent-${node}`, args, { HEADGATE_NODE_TOKEN: token });
  }

  /**
   * Starts control planes, simulated nodes and gateways, applies the fleet file, and creates a key for each of its
   * organisations. Gateways follow the log, so they accept a key only once they have folded it.
   */
  async stand(options: StandOptions = {}): Promise<Standing> {
    const {
      document = smallFleet,
      nodes: flags = [[]],
      planes: planeCount = 1,
      gateways: count = 1,
    } = options;
    const usual = ['--models', model, '--tokens-per-second', '0'];
    const [planes, nodes] = await Promise.all([
      Promise.all(names('plane', planeCount).map((name) => this.startPlane(name, options.plane))),
      Promise.all(
        names('node', flags.length).map((name, at) => this.faultyNode(name, ...usual, ...(flags[at] ?? []))),
      ),
    ]);
    const [plane] = planes as [Plane];
    const { admin } = plane;
    const fleet = document(...nodes.map(({ ready }) => ready.url));
    await admin.apply(fleet);
    const keys: Record<string, string> = {};
    for (const { id } of fleet.organisations ?? []) keys[id] = (await admin.createKey(id, 'k')).value;
    const more = typeof options.gateway === 'function' ? options.gateway(plane) : options.gateway;
    const gateways: GatewayProcess[] = [];
    await this.grow(gateways, count, more);
    const [node] = nodes as [Launch<{ readonly url: string }>];
    const [gateway] = gateways as [GatewayProcess];
    return { plane, planes, admin, node, nodes, gateway, gateways, key: Object.values(keys)[0] ?? '', keys };
  }

  /** Adds gateways, a few at a time, until the list has `count` of them. They are called `gateway-1` and so on. */
  async grow(gateways: GatewayProcess[], count: number, more?: More): Promise<void> {
    while (gateways.length < count) {
      const next = Array.from(
        { length: Math.min(4, count - gateways.length) },
        (_, at) => gateways.length + at + 1,
      );
      gateways.push(...(await Promise.all(next.map((at) => this.startGateway(`gateway-${at}`, more)))));
    }
  }

  simNode(name: string, ...more: string[]): Promise<Launch<{ readonly url: string }>> {
    return this.start(name, ['sim-node', '--port', '0', ...more]);
  }

  /** Starts a simulated node with `--behaviour` and the control API of `test/simulator`. */
  faultyNode(name: string, ...more: string[]): Promise<Launch<{ readonly url: string }>> {
    return this.start(name, more, {}, faultyNodeBinary);
  }

  admin({ ready }: { readonly ready: { readonly admin: string } }): DevAdmin {
    return new DevAdmin(ready.admin, operatorToken);
  }

  /** Starts a process. `build` is the path of another build's `headgate` command. */
  async start<Ready>(
    name: string,
    args: readonly string[],
    env: Env = {},
    build = this.#build,
  ): Promise<Launch<Ready>> {
    const started = await startProcess<Ready>({
      ...{ dir: this.dir, name, args, binary: build },
      env: { ...this.env, ...env },
      ...(this.#timeoutMs !== undefined && { timeoutMs: this.#timeoutMs }),
    });
    this.#running.push(started);
    return started;
  }

  /** Runs `headgate …` to completion as the operator. */
  cli(args: readonly string[], env: Env = {}, timeoutMs?: number): Promise<CommandRun> {
    const own = { HEADGATE_TOKEN: operatorToken, HEADGATE_LOG_LEVEL: 'fatal', NO_COLOR: '1' };
    return runCommand(args, { env: { ...this.env, ...own, ...env }, cwd: this.dir, timeoutMs });
  }

  /** Ends all processes, including suspended ones, and removes their folder. */
  async close(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    for (const { child } of this.#running) child.kill('SIGCONT');
    await Promise.all(this.#running.map((one) => one.end(signal)));
    rmSync(this.dir, { recursive: true, force: true });
  }
}

/** Starts a fleet with `open` and returns it. Closes it if that fails. */
export async function opened<Fleet extends ProcessFleet>(
  fleet: Fleet,
  open: () => Promise<void>,
): Promise<Fleet> {
  try {
    await open();
    return fleet;
  } catch (error) {
    await fleet.close();
    throw error;
  }
}

/**
 * Returns the value of a metric series, or NaN if the process does not have the series. `series` must be written exactly as
 * the process prints it.
 */
export async function metric(
  { ready }: { readonly ready: { readonly metrics: string } },
  series: string,
): Promise<number> {
  const lines = (await (await fetch(`${ready.metrics}/metrics`)).text()).split('\n');
  return Number(lines.find((line) => line.startsWith(`${series} `))?.slice(series.length + 1));
}

/** Changes the behaviour of a simulated node from now on. */
export async function behave(
  node: Launch<{ readonly url: string }>,
  behaviour: Partial<Behaviour>,
): Promise<void> {
  await fetch(`${node.ready.url}/sim/behaviour`, { method: 'PUT', body: JSON.stringify(behaviour) });
}

/** Creates a sign-in link with a call of the admin API and returns the console's session cookie. */
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

/** Returns names of the form `name`, `name-2` and so on. */
function names(name: string, count: number): string[] {
  return Array.from({ length: count }, (_, at) => (at === 0 ? name : `${name}-${at + 1}`));
}

export const organisation = 'acme';
export const model = 'echo-small';

/** Builds a fleet file with one organisation on a tier without limits, and one pool node with one model. */
export function smallFleet(nodeUrl: string): Fleet {
  return {
    version: 1,
    models: [{ id: model, family: 'echo', weight: 1 }],
    tiers: [{ id: 'Wide', models: '*' }],
    pool: { models: [model], nodes: [{ id: 'pool-1', url: nodeUrl, dialect: 'vllm' }] },
    organisations: [{ id: organisation, name: 'Acme', tier: 'Wide' }],
  };
}

/** Requests one completion. `more` adds or replaces fields of the request body. */
export function completion(
  api: string,
  key: string,
  more: Readonly<Record<string, unknown>> = {},
  init: Pick<RequestInit, 'signal'> & { readonly headers?: Readonly<Record<string, string>> } = {},
): Promise<Response> {
  return fetch(`${api}/chat/completions`, {
    ...{ method: 'POST', ...init },
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...init.headers },
    body: JSON.stringify({ model, messages: [{ role: 'user', content: 'hello' }], ...more }),
  });
}

/** Whether the gateway has folded the key. The check does not count towards any limit. */
export async function accepts({ ready }: GatewayProcess, key: string): Promise<boolean> {
  const response = await fetch(`${ready.api}/models`, { headers: { authorization: `Bearer ${key}` } });
  await response.text();
  return response.status === 200;
}

/**
 * Returns the status of a completion with this key. If there are no nodes, any status but 401 means that the gateway accepted
 * the key.
 */
export async function statusWith(
  api: string,
  key: string,
  more: Readonly<Record<string, unknown>> = {},
): Promise<number> {
  const response = await completion(api, key, more);
  await response.text();
  return response.status;
}
