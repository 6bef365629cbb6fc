/**
 * Parses a body as JSON, more strictly than `JSON.parse`, so that no two readers can understand it differently. Refuses
 * invalid UTF-8, nesting beyond 64 levels, duplicate names in an object, the name `__proto__`, and lone surrogates.
 *
 * Also refuses more names or values than a request needs, because the cost depends on their number. They are counted before
 * parsing. A refusal may quote a harmless name from the body, but never a value. Duplicate names are found by counting: if
 * the text has more colons outside strings than the parsed value has names, a later name has replaced an earlier one.
 */
import { isUtf8 } from 'node:buffer';
import { Refusal } from '../../../shared/decision/refusal.ts';
import { type JsonCounts, scanJson } from '../../../shared/runtime/json-scan.ts';
import { findBadName, pathText } from './json-path.ts';

export const jsonDepthMax = 64;
export const jsonNamesMax = 50_000;
export const jsonValuesMax = 500_000;

const loneSurrogate = /\p{Surrogate}/u;

/** Decoded body that is within all bounds, but may still be invalid JSON. */
export interface JsonText {
  readonly text: string;
  readonly counts: JsonCounts;
}

/** Parses a body. Throws `UnsupportedShapeError` if it is not JSON, or contains names or text that are refused. */
export function parseStrictJson(raw: Buffer | JsonText): unknown {
  const { text, counts } = 'counts' in raw ? raw : readJsonText(raw);
  const parsed = tryParse(text);
  if (parsed === undefined) throw fault('the body is not valid JSON');
  // Check for lone surrogates only after such escapes, because valid UTF-8 cannot contain any.
  const escapesSurrogates = /\\u[dD]/.test(text);
  const names = new Inspection(text, escapesSurrogates).namesIn(parsed.value);
  if (names !== counts.names) throw badName(text);
  return parsed.value;
}

/** Decodes a body and counts its names and values, in time proportional to its bytes. Throws `UnsupportedShapeError`. */
export function readJsonText(raw: Buffer): JsonText {
  if (!isUtf8(raw)) throw fault('the body is not valid UTF-8');
  const text = raw.toString('utf8');
  const counts = scanJson(text, { depth: jsonDepthMax, names: jsonNamesMax, values: jsonValuesMax });
  switch (counts.exceeded) {
    case undefined:
      return { text, counts };
    case 'depth':
      throw fault(`the body is nested deeper than ${jsonDepthMax}`);
    case 'names':
      throw fault(`the body has more than ${jsonNamesMax} names`);
    case 'values':
      throw fault(`the body has more than ${jsonValuesMax} values`);
    default:
      return counts.exceeded satisfies never;
  }
}

/** Parses JSON. Returns undefined if the text is invalid, without the parser's error message, which would quote the text. */
function tryParse(text: string): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}

function badName(text: string): Refusal {
  const path = findBadName(text);
  const rule = path.at(-1) === '__proto__' ? 'is not allowed as a name' : 'is given twice';
  return fault(`${pathText(path)}: ${rule}`);
}

function fault(message: string): Refusal {
  return new Refusal('shape', message);
}

/** Checks a parsed value and counts its names in one pass. Recursion is safe, because nesting was bounded before parsing. */
class Inspection {
  readonly #text: string;
  readonly #surrogates: boolean;

  constructor(text: string, surrogates: boolean) {
    this.#text = text;
    this.#surrogates = surrogates;
  }

  namesIn(value: unknown): number {
    if (typeof value === 'string') {
      if (this.#surrogates) refuseLoneSurrogate(value);
      return 0;
    }
    if (typeof value !== 'object' || value === null) return 0;
    let names = 0;
    if (Array.isArray(value)) {
      for (const item of value) names += this.namesIn(item);
      return names;
    }
    for (const name of Object.keys(value)) {
      if (name === '__proto__') throw badName(this.#text);
      if (this.#surrogates) refuseLoneSurrogate(name);
      names += 1 + this.namesIn((value as Record<string, unknown>)[name]);
    }
    return names;
  }
}

function refuseLoneSurrogate(text: string): void {
  if (loneSurrogate.test(text)) throw fault('a string in the body has half a surrogate pair');
}
