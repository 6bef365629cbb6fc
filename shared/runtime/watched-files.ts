/**
 * A value that is made of files, such as a certificate and its key: read at the start, and again once one of the files is another
 * one than before. Where the files cannot be used then, the former value stays.
 */
import { statSync } from 'node:fs';
import { errorCode } from './error-code.ts';
import type { Logger } from './logger.ts';

export class WatchedFiles<Value> {
  readonly #paths: readonly string[];
  readonly #read: () => Value;
  #seen: string;
  #value: Value;

  /** Throws what `read` throws. */
  constructor(paths: readonly string[], read: () => Value) {
    this.#paths = paths;
    this.#read = read;
    this.#seen = fileIdentity(paths);
    this.#value = read();
  }

  get value(): Value {
    return this.#value;
  }

  /**
   * Reads the files again where one of them changed, or `always`; true where it did. Throws what `read` throws, once for each state of
   * the files.
   */
  look(always = false): boolean {
    // Before they are read, so that what is written meanwhile is found by the next look.
    const seen = fileIdentity(this.#paths);
    if (seen === this.#seen && !always) return false;
    this.#seen = seen;
    this.#value = this.#read();
    return true;
  }
}

/** Kubernetes swaps a link above the files, so this is about what a path leads to. A pipe is read once. */
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

/** What a process takes from files, and reads again by itself. */
export interface Renewable {
  /** Reads its files again where they changed, or `always`, and logs what came of it. Throws nothing. */
  renew(logger: Logger, always: boolean): void;
}

const periodMsDefault = 60_000;

/** Looks at all files each minute, and reads them again on SIGHUP. The signal ends no process: it may be sent to a whole fleet. */
export function keepRenewed(all: readonly Renewable[], logger: Logger, periodMs = periodMsDefault): void {
  setInterval(() => {
    for (const each of all) each.renew(logger, false);
  }, periodMs).unref();
  process.on('SIGHUP', () => {
    if (all.length === 0) logger.info('there is no certificate to reload');
    for (const each of all) each.renew(logger, true);
  });
}
