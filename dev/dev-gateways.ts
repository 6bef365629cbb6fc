/**
 * The gateways of `headgate dev`: processes of their own, so that they can be measured and killed alone. The channel to
 * each closes with this process, however it ends, and a gateway ends with its channel.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import type { ConnectionLimits } from '../shared/runtime/connections.ts';

export interface GatewayPlan {
  readonly name: string;
  readonly dataDir: string;
  readonly port: number;
  readonly metricsPort: number;
  readonly stackPorts: readonly string[];
}

export interface RunningChild {
  readonly name: string;
  readonly pid: number;
  readonly api: string;
  readonly metrics: string;
  readonly stacks: readonly { readonly stack: string; readonly url: string }[];
  stop(): Promise<void>;
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
  /** Told when a gateway ends that nobody stopped. */
  readonly onEnd: (name: string, how: string) => void;
}

/** Starts one gateway and gives it once it serves. */
export async function startChild(plan: GatewayPlan, common: GatewayCommon): Promise<RunningChild> {
  const flags = [
    ...[
      '--log',
      common.logUrl,
      '--data',
      plan.dataDir,
      '--name',
      plan.name,
      '--control-plane',
      common.controlPlane,
    ],
    ...[
      '--port',
      String(plan.port),
      '--metrics-port',
      String(plan.metricsPort),
      '--drain-delay',
      '0',
      '--drain-timeout',
      '5',
    ],
    // The control plane is on this machine, whatever address it has.
    '--insecure-snapshots',
    ...common.trustedSigners.flatMap((signer) => ['--trust-signer', signer]),
    ...['--bind', common.bind, '--metrics-bind', common.metricsBind, ...connectionFlags(common.connections)],
    ...plan.stackPorts.flatMap((stackPort) => ['--stack-port', stackPort]),
  ];
  const env = environment(common.gatewayToken);
  const child = fork(process.argv[1] ?? '', ['gateway', ...flags], {
    env,
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    // Requests leave much short-lived garbage; with more room for it, collecting it takes half the time.
    execArgv: [...process.execArgv, '--max-semi-space-size=32'],
    // A Ctrl-C is for this process, which then lets its gateways drain; a second signal would end them at once.
    detached: true,
  });
  const ready = await firstMessage(child, plan.name);
  let stopping = false;
  child.once('exit', (code, signal) => {
    if (!stopping) common.onEnd(plan.name, signal ?? `exit ${code}`);
  });
  return {
    ...ready,
    name: plan.name,
    pid: child.pid ?? 0,
    stop: async () => {
      stopping = true;
      if (child.exitCode !== null || child.signalCode !== null) return;
      const exited = once(child, 'exit');
      child.kill('SIGTERM');
      const timer = setTimeout(() => child.kill('SIGKILL'), stopTimeoutMs);
      await exited;
      clearTimeout(timer);
    },
  };
}

const withheldFromGateways = [
  'HEADGATE_OPERATOR_TOKEN',
  'HEADGATE_TOKEN',
  'HEADGATE_SIGNING_KEY',
  'HEADGATE_GATEWAY_TOKEN_PREVIOUS',
];

/** The environment of a gateway: what makes an operator is no business of the process that callers reach. */
function environment(gatewayToken: string): NodeJS.ProcessEnv {
  const env = { HEADGATE_LOG_LEVEL: 'warn', ...process.env, HEADGATE_GATEWAY_TOKEN: gatewayToken };
  for (const name of withheldFromGateways) Reflect.deleteProperty(env, name);
  return env;
}

function connectionFlags({ max, perAddress }: Partial<ConnectionLimits>): string[] {
  return [
    ...(max === undefined ? [] : ['--max-connections', String(max)]),
    ...(perAddress === undefined ? [] : ['--max-connections-per-address', String(perAddress)]),
  ];
}

type Ready = Pick<RunningChild, 'api' | 'metrics' | 'stacks'>;

function firstMessage(child: ChildProcess, name: string): Promise<Ready> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      child.kill('SIGKILL');
      reject(new Error(`${name} did not serve within ${startTimeoutMs / 1000} s; its log is above`));
    }, startTimeoutMs);
    child.once('message', (message) => {
      clearTimeout(timer);
      resolve(message as Ready);
    });
    child.once('exit', (code, signal) => {
      clearTimeout(timer);
      reject(new Error(`${name} ended before it served (${signal ?? `exit ${code}`}); its error is above`));
    });
  });
}
