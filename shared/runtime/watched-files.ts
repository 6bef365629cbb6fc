/** A value that is read from files at start and again when a file changes. If new files are unusable, the old value stays. */
import { statSync } from 'node:fs';
import { errorCode } from './error-code.ts';
import type { Logger } from './logger.ts';

export class WatchedFiles<Value> {
  readonly #paths: readonly string[];
  readonly #read: () => Value;
  #seen: string;
  #value: Value;

  /** Reads the files for the first time. Throws errors from `read`. */
  constructor(paths: readonly string[], read: () => Value) {
    this.#paths = paths;
    this.#read = read;
    this.#seen = fileIdentity(paths);
    this.#value = read();
  }

  get value(): Value {
    return this.#value;
  }

  /** Reads the files again if one has changed or `always` is set, and returns true if so. Throws errors from `read`. */
  look(always = false): boolean {
    // Identify the files before reading them, so that the next call notices changes made meanwhile.
    const seen = fileIdentity(this.#paths);
    if (seen === this.#seen && !always) return false;
    this.#seen = seen;
    this.#value = this.#read();
    return true;
  }
}

/** Identifies the files behind the paths, because Kubernetes swaps a link higher up. A pipe never seems to change. */
function fileIdentity(paths: readonly string[]): string {
  return paths.map(identityOfFile).join(' ');
}

function identityOfFile(path: string): string {
  try {
    const stats = statSync(path, { bigint: true });
    const { dev, ino, size, mtimeNs, ctimeNs } = stats;
    return stats.isFile() ? [dev, ino, size, mtimeNs, ctimeNs].join(':') : 'no file';
  } catch (error) {
    return errorCode(error) ?? 'unknown';
  }
}

/** A value that a process reads from files, and reads again when they change. */
export interface Renewable {
  /** Reads the files again if they changed or `always` is set, and logs the result. Never throws. */
  renew(logger: Logger, always: boolean): void;
}

const periodMsDefault = 60_000;

/** Checks all files every minute, and reads them again on SIGHUP. It is safe to send SIGHUP to a whole fleet. */
export function keepRenewed(all: readonly Renewable[], logger: Logger, periodMs = periodMsDefault): void {
  setInterval(() => {
    for (const each of all) each.renew(logger, false);
  }, periodMs).unref();
  process.on('SIGHUP', () => {
    if (all.length === 0) logger.info('there is no certificate to reload');
    for (const each of all) each.renew(logger, true);
  });
}
