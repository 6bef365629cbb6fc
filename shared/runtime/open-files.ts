/**
 * How many files and sockets this process may have open, and what follows where it has no more: that a connection cannot be
 * opened for want of a file descriptor says nothing about its other end.
 */
import { readFileSync } from 'node:fs';
import { Counter, type Registry } from 'prom-client';
import { errorCode } from './error-code.ts';
import type { Check } from './health-server.ts';
import type { LineLogger } from './logger.ts';
import { RateLimitedLine } from './rate-limited-line.ts';

/** Codes of errors that are this machine's own; where a connection fails with another one, it is the other end's. */
const ownCodes: ReadonlySet<string> = new Set(['EMFILE', 'ENFILE']);
/** Of the files that a process may open, those that are not for connections of clients: databases, the log, nodes. */
const reserveMin = 128;
const reserveShare = 1 / 4;
/** After the last failure this process counts as short of files for so long. */
const shortMs = 10_000;

/** The soft limit, which Node raises to the hard one when it starts; undefined where the machine does not state it. */
export function openFilesMax(): number | undefined {
  try {
    const max = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1];
    return max === undefined ? undefined : Number(max);
  } catch {
    return undefined;
  }
}

/** The connections that a listener may accept, of those that were asked for. */
export function connectionsWithin(asked: number, filesMax = openFilesMax()): number {
  if (filesMax === undefined) return asked;
  const reserve = Math.max(reserveMin, Math.ceil(filesMax * reserveShare));
  return Math.min(asked, Math.max(1, filesMax - reserve));
}

export function isOutOfFiles(error: unknown): boolean {
  return ownCodes.has(errorCode(error) ?? '');
}

/** Connections that this process could not open, because it had no file descriptor for them. */
export class FileShortage {
  readonly #failures: Counter;
  readonly #line: RateLimitedLine;
  #lastMs = Number.NEGATIVE_INFINITY;

  constructor(registry: Registry, logger: Pick<LineLogger, 'warn'>) {
    this.#failures = new Counter({
      name: 'headgate_file_shortages_total',
      help: 'connections to nodes that could not be opened, because this process had no file descriptor left',
      registers: [registry],
    });
    this.#line = new RateLimitedLine(({ connection: connections }) =>
      logger.warn(
        { connections, openFilesMax: openFilesMax() },
        'no file descriptor is left; raise ulimit -n',
      ),
    );
  }

  note(): void {
    this.#lastMs = performance.now();
    this.#failures.inc();
    this.#line.add('connection');
  }

  get isShort(): boolean {
    return performance.now() - this.#lastMs < shortMs;
  }

  check(): Check {
    return this.isShort
      ? { name: 'files', ok: false, detail: 'this process has no file descriptor left; raise ulimit -n' }
      : { name: 'files', ok: true };
  }

  close(): void {
    this.#line.close();
  }
}
