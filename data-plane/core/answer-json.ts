/**
 * Parses the JSON that nodes send, within bounds. The cost of parsing grows with the number of names and values, so a
 * response with millions of them counts as no JSON.
 */
import { type JsonBounds, scanJson } from '../../shared/runtime/json-scan.ts';

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

/** Undefined where it is no JSON or exceeds the bounds. May block the event loop for long: call it on the worker only. */
export function parseAnswer(raw: Buffer): unknown {
  const text = raw.toString('utf8');
  return scanJson(text, answerBounds).exceeded === undefined ? tryParse(text) : undefined;
}

/** Parses one event of a stream, which is small. Undefined where it is no JSON or exceeds the bounds. */
export function parseEvent(text: string): unknown {
  if (text.length > unscannedBytesMax && scanJson(text, eventBounds).exceeded !== undefined) return undefined;
  return tryParse(text);
}

/** Parses an error body, which is bounded to 64 KiB. Undefined where it is no JSON or exceeds the bounds. */
export function parseError(raw: Buffer): unknown {
  return parseEvent(raw.toString('utf8'));
}

/** Enough for the log probabilities of some dozen tokens, the largest event of an engine. */
const eventBounds: JsonBounds = { depth: 64, names: 10_000, values: 50_000 };

function tryParse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
