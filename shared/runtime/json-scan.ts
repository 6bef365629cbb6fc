/**
 * Counts the names and values in a JSON text in one pass. The cost of parsing grows with them, and a peer can put millions
 * into a few megabytes. If the text is not JSON, the counts are meaningless, but then the parser will refuse it.
 */

export interface JsonBounds {
  /** Maximum nesting depth of arrays and objects. */
  readonly depth: number;
  /** Maximum number of member names in all objects. */
  readonly names: number;
  /** Maximum number of values of any kind: the root, array elements and member values. */
  readonly values: number;
  /** Maximum number of arrays and objects, which cost more than other values. The default is `values`. */
  readonly containers?: number;
}

export interface JsonCounts {
  readonly names: number;
  readonly values: number;
  /** First of the bounds that the text exceeds, or undefined if it exceeds none. */
  readonly exceeded: 'depth' | 'names' | 'values' | undefined;
}

const backslash = 0x5c;

export function scanJson(text: string, bounds: JsonBounds): JsonCounts {
  let names = 0;
  // The root counts as one value. Each comma adds a value, and so does each array or object that is not empty.
  let values = 1;
  let depth = 0;
  let deepest = 0;
  let containers = 0;
  for (let at = 0; at < text.length; at += 1) {
    switch (text.charCodeAt(at)) {
      case 0x22: // "
        at = endOfString(text, at);
        break;
      case 0x2c: // ,
        values += 1;
        break;
      case 0x3a: // :
        names += 1;
        break;
      case 0x5b: // [
      case 0x7b: // {
        values += 1;
        containers += 1;
        depth += 1;
        deepest = Math.max(deepest, depth);
        break;
      case 0x5d: // ]
      case 0x7d: // }
        depth -= 1;
        values -= isEmpty(text, at) ? 1 : 0;
        break;
    }
  }
  return { names, values, exceeded: exceeded({ depth: deepest, names, values, containers }, bounds) };
}

/** Text of an object's array member, or undefined if there is none with this unescaped name. Names must be unique. */
export function arrayText(json: string, name: string): string | undefined {
  const quoted = `"${name}"`;
  let depth = 0;
  let from = -1;
  for (let at = 0; at < json.length; at += 1) {
    switch (json.charCodeAt(at)) {
      case 0x22: {
        const isMember = depth === 1 && json.startsWith(quoted, at);
        at = endOfString(json, at);
        if (isMember) from = findArrayEnd(json, at);
        break;
      }
      case 0x5b: // [
      case 0x7b: // {
        depth += 1;
        break;
      case 0x5d: // ]
      case 0x7d: // }
        depth -= 1;
        if (from !== -1 && depth === 1) return json.slice(from, at + 1);
        break;
    }
  }
  return undefined;
}

/** Returns where the array of the member whose name ends at `at` begins, or -1 if this is not a name with an array. */
function findArrayEnd(json: string, at: number): number {
  const colon = skipSpace(json, at + 1);
  if (json.charCodeAt(colon) !== 0x3a) return -1;
  const value = skipSpace(json, colon + 1);
  return json.charCodeAt(value) === 0x5b ? value : -1;
}

export function skipSpace(json: string, at: number): number {
  let next = at;
  while (isSpace(json.charCodeAt(next))) next += 1;
  return next;
}

function exceeded(found: Required<JsonBounds>, bounds: JsonBounds): JsonCounts['exceeded'] {
  if (found.depth > bounds.depth) return 'depth';
  if (found.names > bounds.names) return 'names';
  const { values, containers = values } = bounds;
  return found.values > values || found.containers > containers ? 'values' : undefined;
}

/** Whether the array or object that ends at `end` is empty. */
function isEmpty(text: string, end: number): boolean {
  let before = end - 1;
  while (isSpace(text.charCodeAt(before))) before -= 1;
  const code = text.charCodeAt(before);
  return code === 0x5b || code === 0x7b;
}

function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;
}

/** Returns the index of the quote that ends the string, or the text's length if the string does not end. */
export function endOfString(text: string, start: number): number {
  let at = text.indexOf('"', start + 1);
  while (at !== -1) {
    let before = at;
    while (text.charCodeAt(before - 1) === backslash) before -= 1;
    if ((at - before) % 2 === 0) return at;
    at = text.indexOf('"', at + 1);
  }
  return text.length;
}
