/**
 * Determines how many files and sockets this process may open, and detects when it has run out. A connection that fails for
 * lack of a file descriptor says nothing about the peer.
 */
import { readFileSync } from 'node:fs';
import { Counter, type Registry } from 'prom-client';
import { errorCode } from './error-code.ts';
import type { Check } from './health-server.ts';
import type { LineLogger } from './logger.ts';
import { RateLimitedLine } from './rate-limited-line.ts';

/** Error codes that mean a lack of file descriptors on this machine. Any other code is attributed to the peer. */
const ownCodes: ReadonlySet<string> = new Set(['EMFILE', 'ENFILE']);
/** Number of file descriptors that client connections may not use, because databases, the log and nodes need them. */
const reserveMin = 128;
const reserveShare = 1 / 4;
/** Time in ms after the last failure for which this process counts as short of file descriptors. */
const shortMs = 10_000;

/** Maximum number of open files, which Node raises to the hard limit at start. undefined if the system does not report it. */
export function openFilesMax(): number | undefined {
  try {
    const max = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1];
    return max === undefined ? undefined : Number(max);
  } catch {
    return undefined;
  }
}

/** Number of connections that a listener may accept: the configured number, or fewer if not enough files can be opened. */
export function connectionsWithin(asked: number, filesMax = openFilesMax()): number {
  if (filesMax === undefined) return asked;
  const reserve = Math.max(reserveMin, Math.ceil(filesMax * reserveShare));
  return Math.min(asked, Math.max(1, filesMax - reserve));
}

export function isOutOfFiles(error: unknown): boolean {
  return ownCodes.has(errorCode(error) ?? '');
}

/** Detects connections that this process could not open for lack of a file descriptor. */
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
