/**
 * Reads a body as JSON, more strictly than JSON.parse, because two readers must not understand it differently. Refuses invalid
 * UTF-8, nesting beyond 64, a name given twice in one object, the name `__proto__`, text with half a surrogate pair, and more
 * names or values than a request needs. A refusal may quote a harmless name of the body, but never a value.
 *
 * The cost of parsing depends on names and values more than on bytes, so both are counted before parsing.
 *
 * A name given twice is found by counting. In valid JSON each name is followed by one colon outside of strings, so the text has
 * more colons than the parsed value has names exactly if a later name replaced an earlier one.
 */
import { isUtf8 } from 'node:buffer';
import { Refusal } from '../../../shared/decision/refusal.ts';
import { type JsonCounts, scanJson } from '../../../shared/runtime/json-scan.ts';
import { findBadName, pathText } from './json-path.ts';

/** Arrays and objects inside each other, at most. */
export const jsonDepthMax = 64;
export const jsonNamesMax = 50_000;
export const jsonValuesMax = 500_000;

const loneSurrogate = /\p{Surrogate}/u;

/** Text that is within all bounds, and that may yet be no JSON. */
export interface JsonText {
  readonly text: string;
  readonly counts: JsonCounts;
}

/** The value of a body. Throws UnsupportedShapeError. */
export function parseStrictJson(raw: Buffer | JsonText): unknown {
  const { text, counts } = 'counts' in raw ? raw : readJsonText(raw);
  const parsed = tryParse(text);
  if (parsed === undefined) throw fault('the body is not valid JSON');
  // Only an escape can bring half a surrogate pair into valid UTF-8.
  const escapesSurrogates = /\\u[dD]/.test(text);
  const names = new Inspection(text, escapesSurrogates).namesIn(parsed.value);
  if (names !== counts.names) throw badName(text);
  return parsed.value;
}

/** The first look at a body, in time that goes by its bytes alone. Throws UnsupportedShapeError. */
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

/** Undefined where the text is not JSON. The parser's own message quotes the text, so it goes no further. */
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

/** One walk over the parsed value. Its depth is bounded, because the text's was. */
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
  if (loneSurrogate.test(text)) throw fault('a text of the body has half a surrogate pair');
}
