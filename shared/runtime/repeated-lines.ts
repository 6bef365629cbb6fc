/**
 * Lines of a log that say the same again: one a minute is written, with how many were left out since. On a full disk, or while
 * a peer is away, many parts of a process repeat what they try each second, and their lines may fill the very disk. What was left
 * out last is written at the end of its minute, so that a log ends with what holds.
 */
import { BoundedMap } from './bounded-map.ts';

const intervalMs = 60_000;
/** Different lines that are remembered; with more of them in a minute, some are written again. */
const linesMax = 1_000;
/** Of a line, by which it is distinguished from others; characters. */
const keyMax = 1_000;

/** Writes a line that was left out so often before. */
type Write = (leftOut: number) => void;

interface Line {
  readonly text: string;
  /** When it was written. */
  atMs: number;
  leftOut: number;
  /** When it was left out last, and what would have written it then. */
  lastMs: number;
  write: Write;
}

export class RepeatedLines {
  /** In the order in which they were first written. */
  readonly #lines = new BoundedMap<string, Line>(linesMax, 'oldest');
  #timer: NodeJS.Timeout | undefined;

  /** Writes a line now, or at the end of the minute in which it was written before. */
  pass(text: string, fields: object, write: Write): void {
    const key = lineKey(text, fields);
    if (key === undefined) {
      write(0);
      return;
    }
    const nowMs = performance.now();
    const before = this.#lines.get(key);
    if (before !== undefined && nowMs - before.atMs < intervalMs) {
      before.leftOut++;
      before.lastMs = nowMs;
      before.write = write;
      this.#timer ??= setTimeout(() => this.#writeDue(), intervalMs - (nowMs - before.atMs)).unref();
      return;
    }
    this.#lines.keep(key, { text, atMs: nowMs, leftOut: 0, lastMs: nowMs, write });
    write(before?.leftOut ?? 0);
  }

  #writeDue(): void {
    this.#timer = undefined;
    const nowMs = performance.now();
    const waiting = [...this.#lines.values()].filter(({ leftOut }) => leftOut > 0);
    // A timer may be a moment early.
    const isDue = ({ atMs }: Line): boolean => nowMs - atMs >= intervalMs - 10;
    const texts = new Set(waiting.filter(isDue).map(({ text }) => text));
    // Those of one text together: two of them may be states that take turns, of which the last one holds.
    const due = waiting.filter(({ text }) => texts.has(text));
    for (const line of due.sort((a, b) => a.lastMs - b.lastMs)) {
      line.write(line.leftOut);
      line.atMs = nowMs;
      line.leftOut = 0;
    }
    const nextMs = Math.min(...waiting.filter(({ leftOut }) => leftOut > 0).map(({ atMs }) => atMs));
    if (Number.isFinite(nextMs))
      this.#timer = setTimeout(() => this.#writeDue(), Math.max(nextMs + intervalMs - nowMs, 1)).unref();
  }
}

/** Undefined where the fields cannot be written as text. */
function lineKey(text: string, fields: object): string | undefined {
  try {
    return `${text} ${JSON.stringify(fields, withoutStack)}`.slice(0, keyMax);
  } catch {
    return undefined;
  }
}

function withoutStack(_name: string, value: unknown): unknown {
  if (!(value instanceof Error)) return value;
  const { name, message } = value;
  return { name, message, code: 'code' in value ? value.code : undefined };
}
