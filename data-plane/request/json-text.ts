/**
 * Reads a body as JSON, more strictly than JSON.parse: what two readers could understand differently is refused.
 * Refused are invalid UTF-8, nesting beyond 64, a name given twice in one object, the name `__proto__`, and text
 * with half a surrogate pair. Nothing of the body is ever quoted in a refusal.
 *
 * A name given twice is found by counting: every name of valid JSON is followed by one colon outside of strings,
 * so the text has more colons than the parsed value has names exactly where a later name replaced an earlier one.
 */
import { isUtf8 } from 'node:buffer';
import { Refusal } from './refusal.ts';

/** Arrays and objects inside each other, at most. */
export const jsonDepthMax = 64;

const quote = 0x22;
const backslash = 0x5c;
const colon = 0x3a;
const loneSurrogate = /\p{Surrogate}/u;

/** The value of a body. Throws UnsupportedShapeError. */
export function parseStrictJson(raw: Buffer): unknown {
  if (!isUtf8(raw)) throw fault('the body is not valid UTF-8');
  const text = raw.toString('utf8');
  const names = countNames(text);
  const parsed = tryParse(text);
  if (parsed === undefined) throw fault('the body is not valid JSON');
  // Only an escape can bring half a surrogate pair into valid UTF-8.
  const escapesSurrogates = /\\u[dD]/.test(text);
  if (new Inspection(escapesSurrogates).namesIn(parsed.value) !== names) {
    throw fault('an object of the body has the same name twice');
  }
  return parsed.value;
}

/** Undefined where the text is not JSON. The parser's own message quotes the text, so it goes no further. */
function tryParse(text: string): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}

function fault(message: string): Refusal {
  return new Refusal('UnsupportedShapeError', message);
}

/** Colons outside of strings. Linear; text that is not JSON gives a number without meaning. */
function countNames(text: string): number {
  let names = 0;
  let depth = 0;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === quote) {
      at = endOfString(text, at);
      if (at === -1) return names;
    } else if (code === colon) {
      names += 1;
    } else {
      depth += depthStep(code);
      if (depth > jsonDepthMax) throw fault(`the body is nested deeper than ${jsonDepthMax}`);
    }
  }
  return names;
}

function depthStep(code: number): number {
  switch (code) {
    case 0x5b: // [
    case 0x7b: // {
      return 1;
    case 0x5d: // ]
    case 0x7d: // }
      return -1;
    default:
      return 0;
  }
}

/** Where the string that opens at `start` closes, or -1. */
function endOfString(text: string, start: number): number {
  let at = text.indexOf('"', start + 1);
  while (at !== -1) {
    let before = at;
    while (text.charCodeAt(before - 1) === backslash) before -= 1;
    if ((at - before) % 2 === 0) return at;
    at = text.indexOf('"', at + 1);
  }
  return -1;
}

/** One walk over the parsed value. Its depth is bounded, because the text's was. */
class Inspection {
  readonly #surrogates: boolean;

  constructor(surrogates: boolean) {
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
      if (name === '__proto__') throw fault('a name in the body is not allowed');
      if (this.#surrogates) refuseLoneSurrogate(name);
      names += 1 + this.namesIn((value as Record<string, unknown>)[name]);
    }
    return names;
  }
}

function refuseLoneSurrogate(text: string): void {
  if (loneSurrogate.test(text)) throw fault('a text of the body has half a surrogate pair');
}
