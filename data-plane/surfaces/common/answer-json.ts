/**
 * Parses the JSON that nodes send, within bounds. The cost of parsing grows with the number of names and values, so a
 * response with millions of them is refused.
 */
import { type JsonBounds, scanJson } from '../../../shared/runtime/json-scan.ts';
import { NodeFailure } from './node-failure.ts';

/** Bounds for parsing on the main thread. Texts below the first are not scanned, because even the worst is cheap. */
const unscannedBytesMax = 16 * 1024;
const smallBytesMax = 256 * 1024;
const smallBounds: JsonBounds = { depth: 64, names: 2_000, values: 20_000 };

/** Bounds for parsing on the worker: embeddings are long lists of numbers, log probabilities many small objects. */
const answerBounds: JsonBounds = { depth: 64, names: 1_000_000, values: 16_000_000, containers: 1_000_000 };

/** Decides by length alone, so that a large body is not concatenated first. */
export function mayBeSmall(bytes: number): boolean {
  return bytes <= smallBytesMax;
}

/** Parses a response that is cheap to parse; else `large`. The value is undefined where it is no JSON. */
export function parseSmallAnswer(raw: Buffer): { readonly value: unknown } | 'large' {
  const text = raw.toString('utf8');
  if (raw.length > unscannedBytesMax && scanJson(text, smallBounds).exceeded !== undefined) return 'large';
  return { value: tryParse(text) };
}

/** Undefined where it is no JSON. Throws NodeFailure. May block the event loop for long: call it on the worker only. */
export function parseAnswer(raw: Buffer): unknown {
  const text = raw.toString('utf8');
  if (scanJson(text, answerBounds).exceeded !== undefined) throw tooLarge('the answer of the node');
  return tryParse(text);
}

/** Parses one event of a stream, which is small. Undefined where it is no JSON. Throws NodeFailure. */
export function parseEvent(text: string): unknown {
  if (exceedsEvent(text)) throw tooLarge('one event of the stream');
  return tryParse(text);
}

/** Parses an error body, which is bounded to 64 KiB. Undefined where it is no JSON or exceeds the bounds. */
export function parseError(raw: Buffer): unknown {
  return parseText(raw.toString('utf8'));
}

/** Parses a text within the bounds of an event. Undefined where it is no JSON or exceeds them. */
export function parseText(text: string): unknown {
  return exceedsEvent(text) ? undefined : tryParse(text);
}

/** Enough for the log probabilities of some dozen tokens, the largest event of an engine. */
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

/** Matches numbers that JSON does not have. Also matches strings, so that nothing inside them is replaced. */
const stringOrNonNumber = /"[^"\\]*(?:\\.[^"\\]*)*"|-?Infinity|NaN/g;

/** Reads `NaN` and `Infinity`, which Python writes, as null, which other engines send for them. */
function tryParseNonNumbers(text: string): unknown {
  if (!text.includes('NaN') && !text.includes('Infinity')) return undefined;
  try {
    return JSON.parse(text.replace(stringOrNonNumber, (found) => (found.startsWith('"') ? found : 'null')));
  } catch {
    return undefined;
  }
}
