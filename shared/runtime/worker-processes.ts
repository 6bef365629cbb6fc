/**
 * Several processes on the same ports, below one parent. It accepts their connections and hands each to the process whose turn it
 * is, so no request passes through it. It starts them, starts one that ended once more after a pause, and forwards their logs. The
 * end of the parent, for any reason, closes the channel to each, and with it the process.
 */
import type { ChildProcess } from 'node:child_process';
import cluster, { type Worker } from 'node:cluster';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import type { Check } from './health-server.ts';
import type { LineWriter } from './line-writer.ts';
import type { Logger } from './logger.ts';
import { processCountVariable } from './memory-limit.ts';
import { Backoff } from './retry.ts';
import { environment } from './settings.ts';

/** Which one a process is, from 1 on; read by no process that has no such parent. */
const numberVariable = 'WORKER_PROCESS_NUMBER';
const restartPause = { minMs: 1_000, maxMs: 30_000 };
/** After one that served for so long the first pause is a short one again. */
const settledMs = 60_000;
/** One whose event loop does not turn for so long is not ready. */
const answerMs = 2_000;
/** What is longer than this is forwarded in parts, characters. */
const lineMax = 256 * 1024;
const question = 'checks';

/** Which process this is; undefined where it has no such parent. */
export function workerNumber(): number | undefined {
  return cluster.isWorker ? Number(environment[numberVariable]) : undefined;
}

interface Answer {
  readonly checks: readonly Check[];
}

/** Has this process answer what its parent asks. */
export function answerParent(checks: () => readonly Check[]): void {
  process.on('message', (message) => {
    if (message === question) process.send?.({ checks: checks() } satisfies Answer);
  });
}

interface End {
  readonly exitCode: number | null;
  readonly signal: string | null;
}

/** It has said why on stderr, unless a signal ended it. */
export class WorkerNotStarted extends Error {
  override readonly name = 'WorkerNotStarted';
  readonly exitCode: number | null;

  constructor(number: number, { exitCode, signal }: End) {
    super(`worker process ${number} ended before it served (${signal ?? `exit code ${exitCode}`})`);
    this.exitCode = exitCode;
  }
}

export interface WorkerProcessesOptions {
  readonly count: number;
  readonly logger: Pick<Logger, 'error'>;
  /** Takes the lines of the processes; undefined where stderr is a terminal, to which they write themselves. */
  readonly lines: Pick<LineWriter, 'write'> | undefined;
}

interface Running {
  readonly worker: Worker;
  readonly ended: Promise<End>;
  serves: boolean;
}

interface Starting<Ready> {
  readonly onReady: (ready: Ready) => void;
  readonly onFailed: (error: WorkerNotStarted) => void;
}

/** `Ready`: the first message of a process, once it serves. */
export class WorkerProcesses<Ready> {
  readonly #options: WorkerProcessesOptions;
  readonly #running = new Map<number, Running>();
  readonly #closing = new AbortController();
  #restarts = 0;

  constructor(options: WorkerProcessesOptions) {
    this.#options = options;
    const stderr = options.lines === undefined ? 'inherit' : 'pipe';
    // Where a process has one core, helper threads of the collector only take turns with the thread that waits for them.
    const collector = availableParallelism() <= options.count ? ['--single-threaded-gc'] : [];
    const execArgv = [...process.execArgv, ...collector];
    cluster.setupPrimary({ stdio: ['ignore', 'inherit', stderr, 'ipc'], execArgv });
    // Connections in turns: on a shared socket most come to the process that wakes first.
    cluster.schedulingPolicy = cluster.SCHED_RR;
  }

  get restarts(): number {
    return this.#restarts;
  }

  get serving(): number {
    return [...this.#running.values()].filter(({ serves }) => serves).length;
  }

  /** Rejects with WorkerNotStarted. The first one starts alone, so that what all of them would say is said once. */
  async start(): Promise<Ready[]> {
    const first = await this.#start(1);
    const others = Array.from({ length: this.#options.count - 1 }, (_, at) => this.#start(at + 2));
    return [first, ...(await Promise.all(others))];
  }

  /** Each that serves gets its share of the connections, so all of these have to be ready; one that ended gets none. */
  async checks(): Promise<Check[]> {
    const numbers = Array.from({ length: this.#options.count }, (_, at) => at + 1);
    const checks = await Promise.all(numbers.map((number) => this.#check(number)));
    return [...checks, { name: 'workers', ok: this.serving > 0, detail: `${this.serving} serve` }];
  }

  signal(signal: NodeJS.Signals): void {
    for (const { worker } of this.#running.values()) worker.process.kill(signal);
  }

  /** Has all drain, and resolves once they ended. */
  async close(): Promise<void> {
    this.#closing.abort();
    const all = [...this.#running.values()];
    this.signal('SIGTERM');
    await Promise.all(all.map(({ ended }) => ended));
  }

  #start(number: number): Promise<Ready> {
    return new Promise((onReady, onFailed) => void this.#keep(number, { onReady, onFailed }));
  }

  /** Runs a process and the ones after it; only the first has to serve. */
  async #keep(number: number, { onReady, onFailed }: Starting<Ready>): Promise<void> {
    const { signal: closing } = this.#closing;
    const backoff = new Backoff(restartPause);
    let hasServed = false;
    while (!closing.aborted) {
      const sinceMs = performance.now();
      const running = this.#fork(number);
      running.worker.once('message', (ready: Ready) => {
        hasServed = true;
        running.serves = true;
        onReady(ready);
      });
      const end = await running.ended;
      this.#running.delete(number);
      if (!hasServed) return onFailed(new WorkerNotStarted(number, end));
      if (closing.aborted) return;
      this.#options.logger.error({ worker: number, ...end }, 'a worker process ended; another is started');
      if (performance.now() - sinceMs > settledMs) backoff.reset();
      await backoff.pause(closing);
      if (!closing.aborted) this.#restarts++;
    }
  }

  #fork(number: number): Running {
    const { lines } = this.#options;
    const worker = cluster.fork({
      [numberVariable]: String(number),
      [processCountVariable]: String(this.#options.count),
    });
    // A message to one that has just ended, for example; its end comes to `ended`.
    worker.on('error', () => undefined);
    if (lines !== undefined) forwardLines(worker.process, lines);
    closeWithWorker(worker.process);
    const ended = new Promise<End>((resolve) => {
      worker.process.once('close', (exitCode, signal) => resolve({ exitCode, signal }));
    });
    const running = { worker, ended, serves: false };
    this.#running.set(number, running);
    return running;
  }

  async #check(number: number): Promise<Check> {
    const name = `worker-${number}`;
    const running = this.#running.get(number);
    if (!running?.serves) return { name, ok: true, detail: 'does not serve, and gets no connections' };
    const given = await answerOf(running.worker);
    if (given === undefined) return { name, ok: false, detail: `did not answer for ${answerMs / 1000} s` };
    const failed = given.filter(({ ok }) => !ok);
    const detail = failed.map((check) => `${check.name}: ${check.detail ?? 'failed'}`).join('; ');
    return { name, ok: failed.length === 0, ...(detail !== '' && { detail }) };
  }
}

/** Undefined where it does not answer in time. */
async function answerOf(worker: Worker): Promise<readonly Check[] | undefined> {
  const answer = once(worker, 'message', { signal: AbortSignal.timeout(answerMs) });
  worker.send(question, () => undefined);
  const [message] = await answer.catch(() => []);
  return (message as Answer | undefined)?.checks;
}

interface Closable {
  close(): void;
}

/**
 * A connection that was on its way to a process when a signal ended it: Node waits for the answer to that message without an end, and
 * so would the client. Of each listener one at a time is on its way.
 */
function closeWithWorker(child: ChildProcess): void {
  const onWay = new Map<unknown, Closable>();
  const send = child.send.bind(child) as (...args: unknown[]) => boolean;
  const noted = (...args: unknown[]): boolean => {
    const [message, handle] = args as [{ readonly key?: unknown }, unknown];
    if (typeof handle === 'object' && handle !== null) onWay.set(message.key, handle as Closable);
    return send(...args);
  };
  Object.assign(child, { send: noted });
  // One that has arrived is closed here already, which may be repeated.
  child.once('exit', () => {
    for (const handle of onWay.values()) handle.close();
  });
}

/** Whole lines, because those of several processes come to one file descriptor. */
function forwardLines({ stderr }: ChildProcess, lines: Pick<LineWriter, 'write'>): void {
  let rest = '';
  stderr?.setEncoding('utf8');
  stderr?.on('data', (text: string) => {
    const end = text.lastIndexOf('\n') + 1;
    if (end > 0) lines.write(rest + text.slice(0, end));
    rest = end > 0 ? text.slice(end) : rest + text;
    if (rest.length < lineMax) return;
    lines.write(`${rest}\n`);
    rest = '';
  });
  stderr?.on('end', () => {
    if (rest !== '') lines.write(`${rest}\n`);
  });
}
