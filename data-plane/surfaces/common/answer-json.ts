/** Parses JSON from nodes. The numbers of names and values are bounded, because the time to parse grows with them. */
import { type JsonBounds, scanJson } from '../../../shared/runtime/json-scan.ts';
import { NodeFailure } from './node-failure.ts';

/** Bounds on parsing on the main thread. Texts of at most this size need no scan, because even the worst parses fast. */
const unscannedBytesMax = 16 * 1024;
const smallBytesMax = 256 * 1024;
const smallBounds: JsonBounds = { depth: 64, names: 2_000, values: 20_000 };

/** Bounds on parsing on the worker: embeddings are long lists of numbers, and log probabilities are many small objects. */
const answerBounds: JsonBounds = { depth: 64, names: 1_000_000, values: 16_000_000, containers: 1_000_000 };

/** Whether a response may be small enough to parse on the main thread, judged by its length before its chunks are joined. */
export function mayBeSmall(bytes: number): boolean {
  return bytes <= smallBytesMax;
}

/** Parses a response if that is fast, and returns `large` otherwise. `value` is undefined if the response is not JSON. */
export function parseSmallAnswer(raw: Buffer): { readonly value: unknown } | 'large' {
  const text = raw.toString('utf8');
  if (raw.length > unscannedBytesMax && scanJson(text, smallBounds).exceeded !== undefined) return 'large';
  return { value: tryParse(text) };
}

/** Parses a large response, only on the worker. Returns undefined if it is not JSON. Throws `NodeFailure` if too large. */
export function parseAnswer(raw: Buffer): unknown {
  const text = raw.toString('utf8');
  if (scanJson(text, answerBounds).exceeded !== undefined) throw tooLarge('the answer of the node');
  return tryParse(text);
}

/** Parses one event of a stream. Returns undefined if it is not JSON. Throws `NodeFailure` if it exceeds the bounds. */
export function parseEvent(text: string): unknown {
  if (exceedsEvent(text)) throw tooLarge('one event of the stream');
  return tryParse(text);
}

/** Parses the body of a node's error, at most 64 KiB. Returns undefined if it is not JSON or exceeds the bounds. */
export function parseError(raw: Buffer): unknown {
  return parseText(raw.toString('utf8'));
}

/** Parses a short text. Returns undefined if it is not JSON or exceeds the bounds of a stream's event. */
export function parseText(text: string): unknown {
  return exceedsEvent(text) ? undefined : tryParse(text);
}

/** Bounds on one event of a stream. The largest that engines send contain log probabilities for several dozen tokens. */
const eventBounds: JsonBounds = { depth: 64, names: 10_000, values: 50_000 };

function exceedsEvent(text: string): boolean {
  return text.length > unscannedBytesMax && scanJson(text, eventBounds).exceeded !== undefined;
}

function tooLarge(what: string): NodeFailure {
  return new NodeFailure('too_large', `${what} has too many names or values`);
}

function tryParse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return tryParseNonNumbers(text);
  }
}

/** Matches `NaN` and `Infinity`, which JSON lacks. Also matches whole strings, so that nothing inside them is replaced. */
const stringOrNonNumber = /"[^"\\]*(?:\\.[^"\\]*)*"|-?Infinity|NaN/g;

/** Parses JSON with `NaN` or `Infinity`, which Python writes. Replaces both with null, which other engines write. */
function tryParseNonNumbers(text: string): unknown {
  if (!text.includes('NaN') && !text.includes('Infinity')) return undefined;
  try {
    return JSON.parse(text.replace(stringOrNonNumber, (found) => (found.startsWith('"') ? found : 'null')));
  } catch {
    return undefined;
  }
}
