/**
 * The journal of a run: one line per event, with its time and the machine that it concerns. Two runs of one seed write the
 * same bytes.
 */
import { createHash } from 'node:crypto';
import type { Scheduler } from './scheduler.ts';

const keptLines = 2000;

export class Journal {
  readonly latest: string[] = [];
  readonly #scheduler: Scheduler;
  readonly #digest = createHash('sha256');
  readonly #write: (line: string) => void;

  constructor(scheduler: Scheduler, write: (line: string) => void) {
    this.#scheduler = scheduler;
    this.#write = write;
  }

  note(who: string, what: string): void {
    const line = `${(this.#scheduler.nowMs / 1000).toFixed(4).padStart(10)} ${who.padEnd(12)} ${what}`;
    this.#digest.update(`${line}\n`);
    this.#write(line);
    this.latest.push(line);
    if (this.latest.length > 2 * keptLines) this.latest.splice(0, keptLines);
  }

  /** Writes a log line of the product to the journal. */
  log(who: string, line: string): void {
    this.note(who, `log ${line.trimEnd()}`);
  }

  /** Returns the SHA-256 of all lines. */
  digest(): string {
    return this.#digest.copy().digest('hex');
  }
}
