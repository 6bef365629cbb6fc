/** The journal of a run: one line per event, with its time and machine. Two runs of a seed write the same bytes. */
import { createHash } from 'node:crypto';
import type { Scheduler } from './scheduler.ts';

interface Note {
  readonly at: string;
  /** Machine, or `fault`, `log`, `operator` or `client`. */
  readonly who: string;
  readonly what: string;
}

/** Number of recent notes to keep for a report. */
const notesKept = 2000;

export class Journal {
  readonly #notes: Note[] = [];
  readonly #scheduler: Scheduler;
  readonly #digest = createHash('sha256');
  readonly #write: (line: string) => void;

  constructor(scheduler: Scheduler, write: (line: string) => void) {
    this.#scheduler = scheduler;
    this.#write = write;
  }

  note(who: string, what: string): void {
    const at = (this.#scheduler.nowMs / 1000).toFixed(4).padStart(10);
    const line = `${at} ${who.padEnd(12)} ${what}`;
    this.#digest.update(`${line}\n`);
    this.#write(line);
    this.#notes.push({ at, who, what });
    if (this.#notes.length > 2 * notesKept) this.#notes.splice(0, notesKept);
  }

  /** Writes a line of a process's own log. */
  log(who: string, line: string): void {
    this.note(who, `log ${line.trimEnd()}`);
  }

  /** SHA-256 of all lines so far. */
  digest(): string {
    return this.#digest.copy().digest('hex');
  }

  /** Returns the latest events with a column for each machine that `about` names. Only the request that it names is shown. */
  timeline(about: string, linesMax: number): string {
    const columns = [
      'fault',
      'log',
      'operator',
      ...(about.match(/\b(?:gateway|control|node|agent)-[\w-]+/g) ?? []),
    ];
    const [request = ''] = about.match(/\breq_\w+/) ?? [];
    const lines = this.#notes.flatMap(({ at, who, what }) => {
      const column = columns.indexOf(who === 'client' ? what.replace(/ .*/, '') : who);
      const isOther = what.includes('req_') && !what.includes(request || 'req_');
      return column === -1 || isOther ? [] : `${at} ${' '.repeat(4 * column)}${who}: ${shorten(what)}`;
    });
    return lines.slice(-linesMax).join('\n');
  }
}

/** Shortens a line of a process's log to its message and the fields that explain an answer. */
function shorten(what: string): string {
  if (!what.startsWith('log {')) return what.slice(0, 140);
  const { msg, position, outcome, cause, reason, req_id: id } = JSON.parse(what.slice('log '.length));
  return [msg, position && `at ${position}`, outcome, cause, reason, id].filter(Boolean).join(' ');
}
