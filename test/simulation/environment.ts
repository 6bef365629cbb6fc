/**
 * Replaces the parts of Node.js that would make a run depend on more than its seed: clocks, timers, randomness, disk access
 * in the background, and message channels between threads. Must be installed before the product is loaded, because some
 * modules keep the functions that they import.
 */
import crypto from 'node:crypto';
import { EventEmitter } from 'node:events';
import fs from 'node:fs';
import fsPromises from 'node:fs/promises';
import { createRequire, syncBuiltinESMExports } from 'node:module';
import { Readable, Writable } from 'node:stream';
import timersPromises from 'node:timers/promises';
import workerThreads from 'node:worker_threads';
import zlib from 'node:zlib';
import { perProcess } from '../../shared/runtime/per-process.ts';
import type { Scheduler, SimulatedProcess } from './scheduler.ts';

export function installEnvironment(scheduler: Scheduler): void {
  replaceClocks(scheduler);
  replaceTimers(scheduler);
  replaceRandomness(scheduler);
  replaceDisk(scheduler);
  replaceChannels(scheduler);
  separateDispatchers(scheduler);
  syncBuiltinESMExports();
}

/** Assigns members without checking their types, because the replacements lack the overloads of Node.js. */
function replace(target: object, members: object): void {
  for (const [name, value] of Object.entries(members))
    Object.defineProperty(target, name, { value, writable: true, configurable: true });
}

function replaceClocks(scheduler: Scheduler): void {
  const RealDate = Date;
  replace(Date, { now: () => scheduler.wallMs() });
  // Uses a proxy, so that all dates are still instances of one class.
  const SimulatedDate = new Proxy(RealDate, {
    construct: (target, args, newTarget) =>
      Reflect.construct(target, args.length === 0 ? [scheduler.wallMs()] : args, newTarget),
  });
  replace(globalThis, { Date: SimulatedDate });
  replace(performance, { now: () => scheduler.monotonicMs() });
  replace(process.hrtime, { bigint: () => BigInt(Math.round(scheduler.monotonicMs() * 1e6)) });
  replace(process, { uptime: () => scheduler.monotonicMs() / 1000 });
}

class Timer {
  readonly #scheduler: Scheduler;
  readonly #ms: number;
  readonly #repeats: boolean;
  readonly #run: () => void;
  #event: { run: unknown } | undefined;

  constructor(scheduler: Scheduler, ms: number, repeats: boolean, run: () => void) {
    this.#scheduler = scheduler;
    this.#ms = ms >= 1 && ms <= 2 ** 31 - 1 ? Math.trunc(ms) : 1;
    this.#repeats = repeats;
    this.#run = run;
    this.#begin(scheduler.current);
  }

  #begin(owner: SimulatedProcess): void {
    const { nowMs } = this.#scheduler;
    const ends = owner.timerEnds;
    const ms = this.#ms / owner.machine.clockRate;
    const atMs = Math.max(nowMs + ms + owner.lateMs, ends.get(this.#ms) ?? 0);
    ends.set(this.#ms, atMs);
    this.#event = this.#scheduler.at(atMs, () => this.#fire(), owner);
  }

  #fire(): void {
    const event = this.#event;
    this.#run();
    if (this.#event !== event) return;
    this.#event = undefined;
    if (this.#repeats && event !== undefined) this.#begin(this.#scheduler.current);
  }

  close(): this {
    if (this.#event !== undefined) this.#event.run = undefined;
    this.#event = undefined;
    return this;
  }
  /** Restarts the timer. From now on it belongs to the process that called this. */
  refresh(): this {
    this.close();
    this.#begin(this.#scheduler.current);
    return this;
  }
}
// A simulated process ends only if it is stopped or killed, so it does not matter whether a timer is referenced.
for (const name of ['ref', 'unref', 'hasRef']) replace(Timer.prototype, { [name]: returnThis });

function returnThis(this: object): object {
  return this;
}

type Callback = (...args: unknown[]) => void;

function replaceTimers(scheduler: Scheduler): void {
  const begin =
    (repeats: boolean) =>
    (run: Callback, ms = 1, ...args: unknown[]) =>
      new Timer(scheduler, ms, repeats, () => run(...args));
  const clear = (timer: unknown): void => {
    if (timer instanceof Timer) timer.close();
  };
  /** Runs the callback after the events that are already due, as Node does after the sockets and timers of a turn. */
  const setImmediate = (run: Callback, ...args: unknown[]) =>
    Object.assign(
      scheduler.after(0, () => run(...args)),
      { ref: () => undefined, unref: () => undefined },
    );
  const clearImmediate = (event: { run: unknown } | undefined): void => {
    if (event) event.run = undefined;
  };
  const timers = {
    setTimeout: begin(false),
    setInterval: begin(true),
    ...{ clearTimeout: clear, clearInterval: clear, setImmediate, clearImmediate },
  };
  replace(globalThis, timers);
  replace(timersPromises, { setImmediate: () => scheduler.sleep(0) });
  replace(AbortSignal, {
    timeout: (ms: number) => {
      const controller = new AbortController();
      timers.setTimeout(() => controller.abort(new DOMException('too late', 'TimeoutError')), ms);
      return controller.signal;
    },
  });
}

function replaceRandomness(scheduler: Scheduler): void {
  const fill = <Bytes extends NodeJS.ArrayBufferView>(bytes: Bytes, from = 0, size?: number): Bytes => {
    const { buffer, byteOffset, byteLength } = bytes;
    const view = new Uint8Array(buffer, byteOffset + from, size ?? byteLength - from);
    for (let at = 0; at < view.length; at++) view[at] = Math.floor(scheduler.random() * 256);
    return bytes;
  };
  const randomBytes = (size: number, done?: (error: null, bytes: Buffer) => void): Buffer => {
    const bytes = fill(Buffer.alloc(size));
    if (done) scheduler.after(0, () => done(null, bytes));
    return bytes;
  };
  const randomUUID = (): string => {
    const hex = randomBytes(16).toString('hex');
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20)}`;
  };
  replace(Math, { random: () => scheduler.random() });
  replace(crypto, { randomBytes, randomUUID, randomFillSync: fill });
}

/** Shortest and longest time that one access to the disk takes, in ms. */
const diskMs = [0.02, 1] as const;

function replaceDisk(scheduler: Scheduler): void {
  const sync = fs as unknown as Record<string, (...args: never[]) => unknown>;
  /** Carries out the access after the time that a disk would take, unless the process is killed meanwhile. */
  const later = async <Result>(access: () => Result): Promise<Result> => {
    await scheduler.sleep(scheduler.between(...diskMs));
    return access();
  };
  const handle = (file: number) => ({
    write: (bytes: Uint8Array, offset: number, length: number, position: number) =>
      later(() => ({ bytesWritten: fs.writeSync(file, bytes, offset, length, position) })),
    truncate: (length: number) => later(() => fs.ftruncateSync(file, length)),
    stat: () => later(() => fs.fstatSync(file)),
    close: () => later(() => fs.closeSync(file)),
  });
  const names = ['rename', 'rm', 'writeFile', 'lstat', 'stat', 'mkdir', 'readdir', 'statfs'];
  const { readFile } = fsPromises;
  const calls = names.map((name) => [
    name,
    (...args: never[]) => later(() => (sync[`${name}Sync`] as (...args: never[]) => unknown)(...args)),
  ]);
  replace(fsPromises, {
    ...Object.fromEntries(calls),
    // Node.js itself uses this function to read modules before the simulation runs.
    readFile: (path: unknown, ...options: never[]) =>
      scheduler.isRunning
        ? later(() => fs.readFileSync(path as string, ...options))
        : readFile(path as string, ...options),
    open: (path: string, flags: number, mode: number) => later(() => handle(fs.openSync(path, flags, mode))),
  });
  replace(fs, {
    createReadStream: (path: string, { start = 0, end }: { start?: number; end?: number } = {}) =>
      Readable.from(readPieces(path, start, end)),
    createWriteStream: (path: string, { mode, flags = 'w' }: { mode?: number; flags?: string } = {}) => {
      const file = fs.openSync(path, flags, mode);
      return new Writable({
        write: (bytes: Buffer, _encoding, done) =>
          void later(() => fs.writeSync(file, bytes)).then(() => done()),
        final: (done) => void later(() => fs.closeSync(file)).then(() => done()),
      });
    },
  });
  for (const name of ['deflateRaw', 'inflateRaw'] as const) {
    const now = zlib[`${name}Sync`];
    replace(zlib, {
      [name]: (bytes: Buffer, options: object, done: (error: unknown, result?: Buffer) => void) => {
        try {
          done(null, now(bytes, options));
        } catch (error) {
          done(error);
        }
      },
    });
  }
}

function* readPieces(path: string, start: number, end: number | undefined): Generator<Buffer> {
  const pieceBytes = 64 * 1024;
  const bytes = fs.readFileSync(path).subarray(start, end === undefined ? undefined : end + 1);
  for (let at = 0; at < bytes.length; at += pieceBytes) yield bytes.subarray(at, at + pieceBytes);
}

/**
 * One end of a channel between two parts of a process. Messages are copied, arrive in order, and wait until there is a
 * listener.
 */
class Port extends EventEmitter {
  other: Port | undefined;
  readonly #scheduler: Scheduler;
  readonly #waiting: unknown[] = [];
  #lastMs = 0;

  constructor(scheduler: Scheduler) {
    super();
    this.#scheduler = scheduler;
    this.on('newListener', (name) => {
      if (name === 'message') scheduler.after(0, () => this.#deliver());
    });
  }

  postMessage(message: unknown, moved: readonly ArrayBuffer[] = []): void {
    const copy = structuredClone(message, { transfer: [...moved] });
    this.#later(() => this.other?.receive(copy));
  }

  receive(message: unknown): void {
    this.#waiting.push(message);
    this.#deliver();
  }

  #deliver(): void {
    if (this.listenerCount('message') === 0) return;
    for (const message of this.#waiting.splice(0)) this.emit('message', message);
  }

  close(): void {
    const { other } = this;
    if (other === undefined) return;
    this.#later(() => {
      for (const end of [this, other]) {
        end.other = undefined;
        end.emit('close');
      }
    });
  }

  /** Runs the calls in their order, each after a short random time. */
  #later(run: () => void): void {
    this.#lastMs = Math.max(this.#lastMs, this.#scheduler.nowMs + this.#scheduler.between(0.01, 0.3));
    this.#scheduler.at(this.#lastMs, run);
  }

  ref(): void {}
  unref(): void {}
}

function replaceChannels(scheduler: Scheduler): void {
  replace(workerThreads, {
    MessageChannel: class {
      readonly port1 = new Port(scheduler);
      readonly port2 = new Port(scheduler);
      constructor() {
        this.port1.other = this.port2;
        this.port2.other = this.port1;
      }
    },
  });
}

/** Gives each process its own connections, because undici keeps the connections of all processes in one global object. */
function separateDispatchers(scheduler: Scheduler): void {
  const require = createRequire(import.meta.url);
  // Disables the connect time-out, because undici measures it with one timer for all processes.
  const dispatcher = perProcess(() => new (require('undici').Agent)({ connect: { timeout: 0 } }));
  Object.defineProperty(globalThis, Symbol.for('undici.globalDispatcher.1'), {
    get: () => (scheduler.isRunning ? dispatcher() : {}),
    configurable: true,
  });
}
