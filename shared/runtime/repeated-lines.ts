/**
 * Limits identical log lines to one per minute, which also says how many were left out. Otherwise retries during a fault
 * could fill the very disk that is full. The last omitted line is written at the end of its minute, so that the log ends with
 * the current state.
 */
import { BoundedMap } from './bounded-map.ts';

const intervalMs = 60_000;
/** Number of different lines that are remembered. With more in a minute, some are written again. */
const linesMax = 1_000;
/** Characters of a line that distinguish it from others. */
const keyMax = 1_000;

/** Writes a line; `leftOut` is the number of identical lines that were left out before it. */
type Write = (leftOut: number) => void;

interface Line {
  readonly text: string;
  /** When the line was last written. */
  atMs: number;
  leftOut: number;
  /** When the line was last left out, and the function that would have written it. */
  lastMs: number;
  write: Write;
}

export class RepeatedLines {
  /** Lines in the order in which they were first written. */
  readonly #lines = new BoundedMap<string, Line>(linesMax, 'oldest');
  #timer: NodeJS.Timeout | undefined;

  /** Writes a line now, or at the end of its minute if an identical one was written less than a minute ago. */
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
    // A timer may fire a moment early.
    const isDue = ({ atMs }: Line): boolean => nowMs - atMs >= intervalMs - 10;
    const texts = new Set(waiting.filter(isDue).map(({ text }) => text));
    // Write all lines of one text together. They may be alternating states, and the last one must be the current state.
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

/** Key of a line; undefined if its fields cannot be serialised. */
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
