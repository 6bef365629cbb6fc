/** Parses JSON from nodes. Names and values are bounded, because the cost of parsing grows with their number. */
import { type JsonBounds, scanJson } from '../../../shared/runtime/json-scan.ts';
import { NodeFailure } from './node-failure.ts';

/** Bounds for parsing on the main thread. Texts below the first bound are not scanned: even the worst is cheap. */
const unscannedBytesMax = 16 * 1024;
const smallBytesMax = 256 * 1024;
const smallBounds: JsonBounds = { depth: 64, names: 2_000, values: 20_000 };

/** Bounds for parsing on the worker. Embeddings are long lists of numbers, log probabilities are many small objects. */
const answerBounds: JsonBounds = { depth: 64, names: 1_000_000, values: 16_000_000, containers: 1_000_000 };

/** Decides by length alone, so that a large body is not concatenated first. */
export function mayBeSmall(bytes: number): boolean {
  return bytes <= smallBytesMax;
}

/** Parses a response if that is cheap, and returns `large` otherwise. The value is undefined if the response is not JSON. */
export function parseSmallAnswer(raw: Buffer): { readonly value: unknown } | 'large' {
  const text = raw.toString('utf8');
  if (raw.length > unscannedBytesMax && scanJson(text, smallBounds).exceeded !== undefined) return 'large';
  return { value: tryParse(text) };
}

/** Parses a large response, on the worker only. Returns undefined if it is not JSON. Throws NodeFailure. */
export function parseAnswer(raw: Buffer): unknown {
  const text = raw.toString('utf8');
  if (scanJson(text, answerBounds).exceeded !== undefined) throw tooLarge('the answer of the node');
  return tryParse(text);
}

/** Parses one event of a stream, which is small. Returns undefined if it is not JSON. Throws NodeFailure. */
export function parseEvent(text: string): unknown {
  if (exceedsEvent(text)) throw tooLarge('one event of the stream');
  return tryParse(text);
}

/** Parses an error body of at most 64 KiB. Returns undefined if it is not JSON or exceeds the bounds. */
export function parseError(raw: Buffer): unknown {
  return parseText(raw.toString('utf8'));
}

/** Parses a text within the bounds of an event. Returns undefined if it is not JSON or exceeds them. */
export function parseText(text: string): unknown {
  return exceedsEvent(text) ? undefined : tryParse(text);
}

/** Enough for the log probabilities of several dozen tokens, the largest event that engines send. */
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

/** Matches number words that JSON does not allow. It also matches strings, so that nothing inside them is replaced. */
const stringOrNonNumber = /"[^"\\]*(?:\\.[^"\\]*)*"|-?Infinity|NaN/g;

/** Parses `NaN` and `Infinity`, which Python writes, as null, which other engines send instead. */
function tryParseNonNumbers(text: string): unknown {
  if (!text.includes('NaN') && !text.includes('Infinity')) return undefined;
  try {
    return JSON.parse(text.replace(stringOrNonNumber, (found) => (found.startsWith('"') ? found : 'null')));
  } catch {
    return undefined;
  }
}
