/** `headgate gateway --workers N`: N gateways on one port, each with a name and a state of its own, below one parent. */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { Exit, exitCodes, usageError } from '../terminal/errors.ts';
import type { ProcessContext, RunningProcess } from './run-process.ts';

export const workersMax = 64;
const portMax = 65_535;
const nameMax = 200;
/** How long the parent waits for worker processes in addition to their drain. */
const endSeconds = 5;

/** What differs from one worker process to the next. */
interface OfOne {
  readonly name: string;
  readonly data: string;
  readonly metricsPort: number;
  readonly advertise: string | undefined;
  /** The parent has one. */
  readonly readyFile: string | undefined;
}
interface OfAll extends OfOne {
  readonly workers: number;
}

/** The name, the state and the ports of worker process `number`, from 1 on. */
export function workerOf<Options extends OfOne>(options: Options, number: number): Options {
  const { name, data, metricsPort, advertise } = options;
  return {
    ...options,
    name: `${name}/${number}`,
    data: join(data, `worker-${number}`),
    metricsPort: metricsPort === 0 ? 0 : metricsPort + number,
    advertise: advertise === undefined ? undefined : advertisedOf(advertise, number),
    readyFile: undefined,
  };
}

/** A base address has a port, which is that of the parent; a host has none. */
function advertisedOf(advertise: string, number: number): string {
  if (!advertise.includes('://')) return advertise;
  const url = new URL(advertise);
  url.port = String(Number(url.port) + number);
  return url.origin;
}

/** Throws a usage error where the worker processes would have no names or ports. */
export function checkWorkers({ name, workers, metricsPort, advertise }: OfAll): void {
  if (metricsPort + workers > portMax)
    throw usageError(`--workers ${workers} takes as many ports after --metrics-port ${metricsPort}`);
  if (`${name}/${workers}`.length > nameMax)
    throw usageError(`--name: with --workers it has ${nameMax - `/${workers}`.length} characters at most`);
  if (advertise?.includes('://') && new URL(advertise).port === '')
    throw usageError(
      '--advertise: with --workers it is a host, or a URL with a port',
      'worker process N is reached N ports above that of --advertise',
    );
}

/** Gateways that left usage in this data folder and do not run with so many worker processes. */
export function othersIn({ name, data, workers }: Pick<OfAll, 'name' | 'data' | 'workers'>) {
  const hasUsage = (folder: string): boolean => existsSync(join(folder, 'outbox.db'));
  const numbers = (existsSync(data) ? readdirSync(data) : []).flatMap((each) => {
    const number = /^worker-([1-9]\d*)$/.exec(each)?.[1];
    return number === undefined || (workers > 1 && Number(number) <= workers) ? [] : [Number(number)];
  });
  const one = workers > 1 ? [{ name, folder: data, isLocked: true }] : [];
  const several = numbers.map((number) => ({
    name: `${name}/${number}`,
    folder: join(data, `worker-${number}`),
    isLocked: false,
  }));
  return [...one, ...several].filter(({ folder }) => hasUsage(folder));
}

interface ParentOptions extends OfAll {
  readonly metricsBind: string;
  readonly drainDelay: number;
  readonly drainTimeout: number;
}
/** The ready message of a gateway. */
interface Ready extends Readonly<Record<string, unknown>> {
  readonly name: string;
  readonly pid: number;
  readonly metrics: string;
}

export async function startWorkers(options: ParentOptions, context: ProcessContext): Promise<RunningProcess> {
  const { logger, certificate, closers } = context;
  const { Registry } = await import('prom-client');
  const { lockDataFolder } = await import('../../shared/runtime/data-folder.ts');
  const { Connections } = await import('../../shared/runtime/connections.ts');
  const { LineWriter } = await import('../../shared/runtime/line-writer.ts');
  const { ObservedMetrics } = await import('../../shared/runtime/observed-metrics.ts');
  const { startHealthServer } = await import('../../shared/runtime/health-server.ts');
  const { WorkerNotStarted, WorkerProcesses } = await import('../../shared/runtime/worker-processes.ts');
  const folder = lockDataFolder(options.data);
  closers.add(() => folder.release());
  const onDropped = (lines: number): void => logger.warn({ lines }, 'lines of the access log were dropped');
  const writer = new LineWriter({ fd: 2, onDropped });
  let isServing = false;
  // Once it serves, connections must not wait for the reader of the log; before, a failure is to be there whole, and once.
  const write = (text: string): void => (isServing ? writer.write(text) : void process.stderr.write(text));
  const lines = process.stderr.isTTY ? undefined : { write };
  const workers = new WorkerProcesses<Ready>({ count: options.workers, logger, lines });
  closers.add(() => workers.close());
  process.on('SIGHUP', () => workers.signal('SIGHUP'));
  const registry = new Registry();
  const metrics = new ObservedMetrics(registry);
  metrics.gauge('headgate_workers_serving', 'worker processes that serve', () => workers.serving);
  metrics.counter(
    'headgate_worker_restarts_total',
    'worker processes started in the place of one that ended',
    () => workers.restarts,
  );
  let isClosing = false;
  const health = await startHealthServer({
    host: options.metricsBind,
    port: options.metricsPort,
    ...{ certificate, connections: new Connections({ registry, logger }), metrics: registry },
    checks: async () => [...(await workers.checks()), { name: 'drain', ok: !isClosing }],
  });
  closers.add(() => health.close());
  const ready = await workers.start().catch((error: unknown) => {
    const code = error instanceof WorkerNotStarted ? error.exitCode : null;
    throw code !== null && code in exitCodes ? new Exit(code as keyof typeof exitCodes) : error;
  });
  isServing = true;
  const { name: _name, pid: _pid, ...first } = ready[0] as Ready;
  const each = ready.map(({ name, pid, metrics }) => ({ name, pid, metrics }));
  logger.info({ workers: each, metrics: health.url }, 'worker processes serve');
  return {
    ready: { ...first, metrics: health.url, workers: each },
    name: options.name,
    drainSeconds: options.drainDelay + options.drainTimeout + endSeconds,
    close: async () => {
      isClosing = true;
      await workers.close();
      await closers.close();
    },
  };
}
