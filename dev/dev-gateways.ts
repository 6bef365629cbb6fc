/**
 * The gateways of `headgate dev`: separate processes, so that each can be measured and killed alone. Its IPC channel
 * closes when this process ends, for any reason, and a gateway exits when its channel closes.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import type { Closers } from '../shared/runtime/closers.ts';
import type { ConnectionLimits } from '../shared/runtime/connections.ts';
import { environment } from '../shared/runtime/settings.ts';

export interface GatewayPlan {
  readonly name: string;
  readonly dataDir: string;
  readonly port: number;
  readonly metricsPort: number;
  readonly stackPorts: readonly string[];
  /** No page for visitors where it is left out. */
  readonly playPort: number | undefined;
}

export interface RunningChild {
  readonly name: string;
  readonly pid: number;
  readonly api: string;
  readonly metrics: string;
  readonly stacks: readonly { readonly stack: string; readonly url: string }[];
  /** Address of the page for visitors. */
  readonly play?: string;
}

const startTimeoutMs = 120_000;
const stopTimeoutMs = 10_000;

export interface GatewayCommon {
  readonly logUrl: string;
  readonly controlPlane: string;
  readonly gatewayToken: string;
  readonly nodeCredentials?: string | undefined;
  readonly trustedSigners: readonly string[];
  readonly bind: string;
  readonly metricsBind: string;
  readonly connections: Partial<ConnectionLimits>;
  readonly consoleUrl: string;
  readonly playHosts: readonly string[];
  readonly trustedProxies: readonly string[];
  /** Called when a gateway ends without `stop`. */
  readonly onEnd: (name: string, how: string) => void;
}

/** Starts one gateway and resolves once it is ready; `closers` end it, also where it or another never is. */
export async function startChild(
  plan: GatewayPlan,
  common: GatewayCommon,
  closers: Pick<Closers, 'add'>,
): Promise<RunningChild> {
  const flags = [
    ...flag('--log', common.logUrl),
    ...flag('--data', plan.dataDir),
    ...flag('--name', plan.name),
    ...flag('--control-plane', common.controlPlane),
    ...flag('--port', plan.port),
    ...flag('--metrics-port', plan.metricsPort),
    ...flag('--drain-delay', 0),
    ...flag('--drain-timeout', 5),
    ...flag('--bind', common.bind),
    ...flag('--metrics-bind', common.metricsBind),
    ...flag('--max-connections', common.connections.max),
    ...flag('--max-connections-per-address', common.connections.perAddress),
    ...flag('--play-port', plan.playPort),
    ...flag('--console-url', common.consoleUrl),
    ...common.playHosts.flatMap((host) => flag('--play-host', host)),
    ...common.trustedProxies.flatMap((proxy) => flag('--trusted-proxies', proxy)),
    ...flag('--node-credentials', common.nodeCredentials),
    ...common.trustedSigners.flatMap((signer) => flag('--trust-signer', signer)),
    ...plan.stackPorts.flatMap((stackPort) => flag('--stack-port', stackPort)),
    // The control plane runs on this machine, whatever its address.
    '--insecure-snapshots',
  ];
  const env = gatewayEnvironment(common.gatewayToken);
  const child = fork(process.argv[1] ?? '', ['gateway', ...flags], {
    env,
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    // Only this process handles Ctrl-C and drains its gateways; a second signal would end them at once.
    detached: true,
  });
  let stopping = false;
  closers.add(() => {
    stopping = true;
    return stop(child);
  });
  const ready = await firstMessage(child, plan.name);
  child.once('exit', (code, signal) => {
    if (!stopping) common.onEnd(plan.name, signal ?? `exit ${code}`);
  });
  return { ...ready, name: plan.name, pid: child.pid ?? 0 };
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.kill('SIGKILL'), stopTimeoutMs);
  await exited;
  clearTimeout(timer);
}

const withheldFromGateways = [
  'HEADGATE_OPERATOR_TOKEN',
  'HEADGATE_TOKEN',
  'HEADGATE_SIGNING_KEY',
  'HEADGATE_GATEWAY_TOKEN_PREVIOUS',
];

/** The environment of a gateway, without operator secrets: clients can reach this process. */
function gatewayEnvironment(gatewayToken: string): NodeJS.ProcessEnv {
  const env = { HEADGATE_LOG_LEVEL: 'warn', ...environment, HEADGATE_GATEWAY_TOKEN: gatewayToken };
  for (const name of withheldFromGateways) Reflect.deleteProperty(env, name);
  return env;
}

/** A flag and its value, or nothing if there is no value. */
function flag(name: string, value: string | number | undefined): string[] {
  return value === undefined ? [] : [name, String(value)];
}

type Ready = Pick<RunningChild, 'api' | 'metrics' | 'stacks' | 'play'>;

function firstMessage(child: ChildProcess, name: string): Promise<Ready> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      child.kill('SIGKILL');
      reject(new Error(`${name} was not ready within ${startTimeoutMs / 1000} s; see its log above`));
    }, startTimeoutMs);
    child.once('message', (message) => {
      clearTimeout(timer);
      resolve(message as Ready);
    });
    child.once('exit', (code, signal) => {
      clearTimeout(timer);
      reject(
        new Error(`${name} ended before it was ready (${signal ?? `exit ${code}`}); see its error above`),
      );
    });
  });
}
