/**
 * Limits identical log lines to one per minute. Each line says how many were omitted before it. Otherwise retries during a
 * fault could fill a disk that is already full. The last omitted line is written at the end of its minute, so that the log
 * ends with the current state.
 */
import { BoundedMap } from './bounded-map.ts';

const intervalMs = 60_000;
/** Number of different lines that are remembered. If more appear within a minute, some are repeated. */
const linesMax = 1_000;
/** Number of characters by which lines are compared. */
const keyMax = 1_000;

/** Writes a line. `leftOut` is the number of identical lines omitted since it was last written. */
type Write = (leftOut: number) => void;

interface Line {
  readonly text: string;
  /** Monotonic time in ms when the line was last written. */
  atMs: number;
  leftOut: number;
  /** Monotonic time in ms when the line was last omitted. `write` is the function that would have written it then. */
  lastMs: number;
  write: Write;
}

export class RepeatedLines {
  /** Lines in the order in which they were first seen. */
  readonly #lines = new BoundedMap<string, Line>(linesMax, 'oldest');
  #timer: NodeJS.Timeout | undefined;

  /** Writes a line now. If an identical one was written less than a minute ago, waits until the end of that minute. */
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
    // Allow 10 ms, because a timer may fire slightly early.
    const isDue = ({ atMs }: Line): boolean => nowMs - atMs >= intervalMs - 10;
    const texts = new Set(waiting.filter(isDue).map(({ text }) => text));
    // Write all lines with the same text together. They may report alternating states, and the current one must come last.
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

/** Returns the key by which lines are compared, or undefined if the fields cannot be serialised. */
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
