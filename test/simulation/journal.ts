/** The log of a run: one line per event, with its time and who it concerns. Two runs of a seed give the same bytes. */
import { createHash } from 'node:crypto';
import type { Scheduler } from './scheduler.ts';

/** Lines that are kept for a report. */
const keptLines = 2000;

export class Journal {
  /** The latest lines. */
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

  /** Notes a log line of the product. */
  log(who: string, line: string): void {
    this.note(who, `log ${line.trimEnd()}`);
  }

  /** SHA-256 of all lines. */
  digest(): string {
    return this.#digest.copy().digest('hex');
  }
}
