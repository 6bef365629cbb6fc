/**
 * Watches real processes under fuzzing. They must stay alive, answer health checks, log no secret, and release what they
 * held.
 */
import { Agent, get } from 'node:http';
import { get as getTls, Agent as TlsAgent } from 'node:https';
import { setTimeout as pause } from 'node:timers/promises';
import type { Launch } from '../support/processes.ts';
import { inspectorIn, type Level, levelOf } from './inspect.ts';

const healthEveryMs = 500;
const healthAnswerMs = 15_000;
/** Largest allowed ratio of the memory held after a run to the memory held before it. */
const heldFactorMax = 1.5;
const heldSlackBytes = 24 * 1024 * 1024;
const resourcesSlack = 40;
/**
 * Time for connections and timers to end after the last case, in ms. A WebSocket whose peer does not answer a close frame
 * takes 30 s.
 */
const settleMs = 60_000;

export class WatchedProcess<Ready = unknown> {
  readonly name: string;
  readonly started: Launch<Ready>;
  readonly #secrets: Set<string>;
  readonly #faults = new Set<string>();
  readonly #inspector: string | undefined;
  readonly #healthAgent: Agent;
  readonly #healthUrl: string;
  #tail = '';
  #ending = false;
  #before: Level | undefined;
  #slowestHealthMs = 0;
  #health: NodeJS.Timeout | undefined;

  constructor(name: string, started: Launch<Ready>, healthUrl: string, secrets: Set<string>) {
    this.name = name;
    this.started = started;
    this.#secrets = secrets;
    this.#healthUrl = healthUrl;
    const settings = { keepAlive: true, maxSockets: 1 };
    this.#healthAgent = healthUrl.startsWith('https:')
      ? new TlsAgent({ ...settings, rejectUnauthorized: false })
      : new Agent(settings);
    process.once('exit', this.#kill);
    this.#inspector = inspectorIn(started.stderr());
    started.child.stderr?.on('data', (chunk: Buffer) => this.#scan(chunk.toString('latin1')));
    started.child.once('exit', (code, signal) => {
      if (this.#ending) return;
      const trace = started
        .stderr()
        .split('\n')
        .filter((line) => !line.startsWith('{') && /Error|^\s+at /.test(line))
        .slice(0, 6);
      this.#faults.add(`${name} ended (${signal ?? `exit ${code}`}): ${trace.join(' | ').slice(0, 900)}`);
    });
    this.#planHealth();
  }

  get alive(): boolean {
    const { exitCode, signalCode } = this.started.child;
    return exitCode === null && signalCode === null;
  }

  get faults(): readonly string[] {
    return [...this.#faults];
  }

  get slowestHealthMs(): number {
    return this.#slowestHealthMs;
  }

  /** Records the current memory and resources, to which the process must return. */
  async noteLevel(): Promise<void> {
    if (this.alive && this.#inspector !== undefined) this.#before = await levelOf(this.#inspector);
  }

  /** Waits until the process's memory and resources have returned to the recorded level. Otherwise records a fault. */
  async settle(): Promise<void> {
    const before = this.#before;
    if (before === undefined || this.#inspector === undefined) return;
    const untilMs = performance.now() + settleMs;
    for (;;) {
      if (!this.alive) return;
      const grown = growth(before, await levelOf(this.#inspector));
      if (grown === undefined) return;
      if (performance.now() > untilMs) {
        this.#faults.add(`${this.name} ${grown}`);
        return;
      }
      await pause(1000);
    }
  }

  async end(): Promise<void> {
    this.#ending = true;
    clearTimeout(this.#health);
    this.#healthAgent.destroy();
    process.off('exit', this.#kill);
    await this.started.end('SIGKILL');
  }

  /** Kills the process when the test run exits, however the run ends. */
  readonly #kill = (): void => {
    this.started.child.kill('SIGKILL');
  };

  /** Scans the log line by line. A line that is longer than any that Headgate writes is scanned in overlapping parts. */
  #scan(text: string): void {
    const lines = (this.#tail + text).split('\n');
    const rest = lines.pop() ?? '';
    for (const line of lines) this.#scanLine(line);
    if (rest.length > 100_000) this.#scanLine(rest);
    this.#tail = rest.length > 100_000 ? rest.slice(-500) : rest;
  }

  /** Records one fault for each kind of line, however often the line is written. */
  #scanLine(line: string): void {
    if (![...this.#secrets].some((secret) => line.includes(secret))) return;
    const message = /"msg":"([^"]{1,80})/.exec(line)?.[1] ?? 'a line that is no entry';
    const error = /"err":\{"type":"(\w+)"/.exec(line)?.[1] ?? 'no error';
    const kind = `${this.name} wrote a secret to its log (${message}, ${error})`;
    if (![...this.#faults].some((fault) => fault.startsWith(kind)))
      this.#faults.add(`${kind}: ${line.slice(0, 400)}`);
  }

  #planHealth(): void {
    const ask = this.#healthUrl.startsWith('https:') ? getTls : get;
    this.#health = setTimeout(() => {
      const askedMs = performance.now();
      const options = { agent: this.#healthAgent, timeout: healthAnswerMs };
      const request = ask(this.#healthUrl, options, (response) => {
        response.resume();
        response.on('end', () => {
          this.#slowestHealthMs = Math.max(this.#slowestHealthMs, performance.now() - askedMs);
          this.#planHealth();
        });
      });
      request.on('timeout', () => {
        this.#faults.add(`${this.name} did not answer its health within ${healthAnswerMs} ms`);
        request.destroy();
      });
      request.on('error', () => {
        if (!this.#ending) this.#planHealth();
      });
    }, healthEveryMs);
    this.#health.unref();
  }
}

function growth(before: Level, now: Level): string | undefined {
  const bytesMax = before.heldBytes * heldFactorMax + heldSlackBytes;
  const megabytes = (bytes: number): string => `${(bytes / 2 ** 20).toFixed(1)} MB`;
  if (now.heldBytes > bytesMax)
    return `holds ${megabytes(now.heldBytes)} after its rest, ${megabytes(before.heldBytes)} before the run`;
  for (const [kind, count] of Object.entries(now.resources)) {
    const earlier = before.resources[kind] ?? 0;
    if (count > earlier + resourcesSlack)
      return `holds ${count} ${kind} after its rest, ${earlier} before the run`;
  }
  return undefined;
}
