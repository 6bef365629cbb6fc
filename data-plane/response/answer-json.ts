/**
 * The JSON of a node's answer, as far as it may be parsed at all. What it costs goes by its names and values, and a node
 * that sends millions of them has sent no answer.
 */
import { type JsonBounds, scanJson } from '../../shared/json-scan.ts';

/** What is parsed on the thread of requests. Less than the first is not even counted. */
const unscannedBytesMax = 16 * 1024;
const smallBytesMax = 256 * 1024;
const smallBounds: JsonBounds = { depth: 64, names: 2_000, values: 20_000 };

/** What is parsed at all: vectors are long lists of numbers, and log probabilities many small objects. */
const answerBounds: JsonBounds = { depth: 64, names: 1_000_000, values: 16_000_000, containers: 1_000_000 };

/** Whether a body of so many bytes may be small; asked before it is put together. */
export function maySmall(bytes: number): boolean {
  return bytes <= smallBytesMax;
}

/** The value of an answer that is cheap to parse, undefined where it is no JSON; or `large`. */
export function parseSmallAnswer(raw: Buffer): { readonly value: unknown } | 'large' {
  const text = raw.toString('utf8');
  if (raw.length > unscannedBytesMax && scanJson(text, smallBounds).exceeded !== undefined) return 'large';
  return { value: tryParse(text) };
}

/** The value of any answer; undefined where it is no JSON or too much of it. Not for the thread of requests. */
export function parseAnswer(raw: Buffer): unknown {
  const text = raw.toString('utf8');
  return scanJson(text, answerBounds).exceeded === undefined ? tryParse(text) : undefined;
}

/** The value of one event of a stream, which is small; undefined where it is none, or holds too much. */
export function parseEvent(text: string): unknown {
  if (text.length > unscannedBytesMax && scanJson(text, eventBounds).exceeded !== undefined) return undefined;
  return tryParse(text);
}

/** The value of a node's error, which is bounded to 64 KiB; undefined where it is none, or holds too much. */
export function parseError(raw: Buffer): unknown {
  return parseEvent(raw.toString('utf8'));
}

/** The most log probabilities that one event has are those of some dozen tokens. */
const eventBounds: JsonBounds = { depth: 64, names: 10_000, values: 50_000 };

function tryParse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
