/**
 * Load client on raw sockets. It uses so little CPU time that it can measure other processes. It supports only what the
 * benches need: keep-alive, responses with a Content-Length or chunks, and server-sent events.
 */
import { connect, type Socket } from 'node:net';

export interface Target {
  readonly port: number;
  readonly path: string;
  readonly host: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export function requestBytes({ path, host, headers, body }: Target): Buffer {
  const lines = [
    `POST ${path} HTTP/1.1`,
    `Host: ${host}`,
    'Content-Type: application/json',
    `Content-Length: ${Buffer.byteLength(body)}`,
  ];
  for (const [name, value] of Object.entries(headers)) lines.push(`${name}: ${value}`);
  return Buffer.from(`${lines.join('\r\n')}\r\n\r\n${body}`);
}

/** Keep-alive connection that sends one request at a time. Returns the status once the response is complete. */
export class Connection {
  readonly #socket: Socket;
  #text = '';
  #done: ((status: number) => void) | undefined;
  #sent = 0;
  #readBefore = 0;
  #error = 'closed';

  constructor(port: number) {
    this.#socket = connect(port, '127.0.0.1');
    this.#socket.setNoDelay(true);
    this.#socket.setEncoding('latin1');
    this.#socket.on('data', (chunk: string) => this.#take(chunk));
    this.#socket.on('error', (error: NodeJS.ErrnoException) => {
      this.#error = error.code ?? error.message;
      this.#finish(0);
    });
    this.#socket.on('close', () => this.#finish(0));
  }

  /** Whether the connection has closed since its last request. Servers close connections that are idle. */
  get isClosed(): boolean {
    return this.#socket.destroyed || this.#socket.readableEnded;
  }

  /** Describes why the last request got no response. */
  get fault(): string {
    const read = this.#socket.bytesRead - this.#readBefore;
    return `${this.#error}, request ${this.#sent} of its connection, ${read} bytes of an answer`;
  }

  send(bytes: Buffer): Promise<number> {
    this.#sent++;
    this.#readBefore = this.#socket.bytesRead;
    return new Promise((resolve) => {
      this.#done = resolve;
      if (this.#socket.destroyed) this.#finish(0);
      else this.#socket.write(bytes);
    });
  }

  close(): void {
    this.#socket.destroy();
  }

  #take(chunk: string): void {
    this.#text += chunk;
    const end = this.#text.indexOf('\r\n\r\n');
    if (end === -1) return;
    const head = this.#text.slice(0, end).toLowerCase();
    const length = /content-length: *(\d+)/.exec(head)?.[1];
    const whole =
      length === undefined ? this.#text.endsWith('0\r\n\r\n') : this.#text.length >= end + 4 + Number(length);
    if (!whole) return;
    const status = Number(this.#text.slice(9, 12));
    this.#text = '';
    this.#finish(status);
  }

  #finish(status: number): void {
    const done = this.#done;
    this.#done = undefined;
    done?.(status);
  }
}

export interface LoadResult {
  readonly requests: number;
  readonly failures: number;
  readonly seconds: number;
  /** Latencies in µs, sorted in ascending order. */
  readonly latencies: Float64Array;
}

/** Sends as many requests as the connections can carry, for this number of seconds. */
export async function saturate(target: Target, connections: number, seconds: number): Promise<LoadResult> {
  const bytes = requestBytes(target);
  const until = performance.now() + seconds * 1000;
  const latencies: number[] = [];
  let failures = 0;
  const started = performance.now();
  await Promise.all(
    Array.from({ length: connections }, async () => {
      const connection = new Connection(target.port);
      while (performance.now() < until) {
        const before = performance.now();
        const status = await connection.send(bytes);
        if (status === 200) latencies.push((performance.now() - before) * 1000);
        else failures++;
        if (status === 0) break;
      }
      connection.close();
    }),
  );
  return measured(latencies, failures, started);
}

/** Sends requests at a fixed rate, however slow the target is. A late response does not delay the next request. */
export async function atRate(target: Target, perSecond: number, seconds: number): Promise<LoadResult> {
  const bytes = requestBytes(target);
  const idle: Connection[] = [];
  const all: Connection[] = [];
  const latencies: number[] = [];
  const pending: Promise<void>[] = [];
  let failures = 0;
  const started = performance.now();
  const total = perSecond * seconds;
  for (let sent = 0; sent < total; ) {
    const due = Math.min(total, Math.floor(((performance.now() - started) / 1000) * perSecond));
    for (; sent < due; sent++) {
      const connection = idle.pop() ?? new Connection(target.port);
      if (!all.includes(connection)) all.push(connection);
      const before = performance.now();
      pending.push(
        connection.send(bytes).then((status) => {
          if (status === 200) latencies.push((performance.now() - before) * 1000);
          else failures++;
          if (status !== 0) idle.push(connection);
        }),
      );
    }
    await new Promise((resolve) => setImmediate(resolve));
  }
  await Promise.all(pending);
  for (const connection of all) connection.close();
  return measured(latencies, failures, started);
}

function measured(latencies: number[], failures: number, started: number): LoadResult {
  return {
    requests: latencies.length,
    failures,
    seconds: (performance.now() - started) / 1000,
    latencies: Float64Array.from(latencies).sort(),
  };
}

export function percentile(sorted: Float64Array, p: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor((sorted.length * p) / 100))] ?? Number.NaN;
}

export interface StreamResult {
  readonly events: number;
  readonly completed: number;
  /** Delay of each event after the time at which it was expected, in µs, sorted in ascending order. */
  readonly delays: Float64Array;
}

/** Opens `count` streams at the same time. A delay is the gap between two data events minus the node's interval. */
export async function streams(target: Target, count: number, intervalMs: number): Promise<StreamResult> {
  const bytes = requestBytes(target);
  const delays: number[] = [];
  let events = 0;
  let completed = 0;
  await Promise.all(
    Array.from(
      { length: count },
      (_, index) =>
        new Promise<void>((resolve) => {
          // The streams start at different times within one interval, so that the node's timers do not all fire together.
          setTimeout(
            () => {
              const socket = connect(target.port, '127.0.0.1', () => socket.write(bytes));
              let last = 0;
              let tail = '';
              socket.setNoDelay(true);
              socket.setEncoding('latin1');
              socket.on('data', (chunk: string) => {
                const now = performance.now();
                const text = tail + chunk;
                const seen = text.split('\n\n').length - 1;
                tail = text.slice(text.lastIndexOf('\n\n') + 2);
                events += seen;
                if (last > 0 && seen > 0) delays.push(Math.max(0, (now - last - intervalMs) * 1000));
                if (seen > 0) last = now;
                if (text.includes('data: [DONE]')) {
                  completed++;
                  socket.destroy();
                }
              });
              socket.on('error', () => undefined);
              socket.on('close', () => resolve());
            },
            (index % 50) * (intervalMs / 50),
          );
        }),
    ),
  );
  return { events, completed, delays: Float64Array.from(delays).sort() };
}
