/**
 * Runs the gateways of `headgate dev` as separate processes, so that each one can be measured and killed on its own. A
 * gateway exits when its IPC channel closes, which happens whenever this process ends.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { gatewayOptions } from '../../cli/processes/gateway.ts';
import type { Closers } from '../../shared/runtime/closers.ts';
import { environment } from '../../shared/runtime/settings.ts';

type Value = string | number | true | readonly string[] | undefined;
/** Options of a gateway. Options that the gateway parses may be given as text. */
type GatewayPlan = { readonly [Name in keyof typeof gatewayOptions]?: Value } & { readonly name: string };

export interface RunningChild {
  readonly name: string;
  readonly pid: number;
  readonly api: string;
  readonly metrics: string;
  readonly stacks: readonly { readonly stack: string; readonly url: string }[];
  /** URL of the gateway's playground page. */
  readonly play?: string;
}

const startTimeoutMs = 120_000;
const stopTimeoutMs = 10_000;

interface Starting {
  readonly gatewayToken: string;
  /** Called when a gateway ends without having been stopped. `how` describes the exit. */
  readonly onEnd: (name: string, how: string) => void;
}

/** Starts a gateway and resolves once it is ready. Adds a closer that stops the gateway, even if it is never ready. */
export async function startChild(
  plan: GatewayPlan,
  { gatewayToken, onEnd }: Starting,
  closers: Pick<Closers, 'add'>,
): Promise<RunningChild> {
  const flags = Object.entries(gatewayOptions).flatMap(([name, make]) =>
    flag(make().long ?? '', plan[name as keyof typeof gatewayOptions]),
  );
  const env = gatewayEnvironment(gatewayToken);
  const child = fork(process.argv[1] ?? '', ['gateway', ...flags], {
    env,
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    // The gateway is detached, because only this process handles Ctrl-C. A second signal would end a gateway without
    // draining.
    detached: true,
  });
  let stopping = false;
  closers.add(() => {
    stopping = true;
    return stop(child);
  });
  const ready = await firstMessage(child, plan.name);
  child.once('exit', (code, signal) => {
    if (!stopping) onEnd(plan.name, signal ?? `exit ${code}`);
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

/** Returns the environment of a gateway. It contains no secrets of the operator, because clients can reach the gateway. */
function gatewayEnvironment(gatewayToken: string): NodeJS.ProcessEnv {
  const env = { HEADGATE_LOG_LEVEL: 'warn', ...environment, HEADGATE_GATEWAY_TOKEN: gatewayToken };
  for (const name of withheldFromGateways) Reflect.deleteProperty(env, name);
  return env;
}

/** Repeats a flag for each of its values. Returns nothing if there are no values. */
function flag(name: string, value: Value): string[] {
  if (value === true) return [name];
  return [value ?? []].flat().flatMap((each) => [name, String(each)]);
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
