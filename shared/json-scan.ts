/**
 * Counts what is in a text of JSON without parsing it, in one walk that allocates nothing: what parsing costs goes by
 * names and values, and a peer can put millions of them into a few megabytes.
 * Text that is not JSON gives numbers without meaning, and is left for the parser to refuse.
 */

export interface JsonBounds {
  /** Arrays and objects inside each other. */
  readonly depth: number;
  /** Names of members, over all objects. */
  readonly names: number;
  /** Values of every kind: each array and object, and each entry of one. */
  readonly values: number;
}

export interface JsonCounts {
  readonly names: number;
  readonly values: number;
  /** The bound that was met first; the walk ended there. */
  readonly exceeded: keyof JsonBounds | undefined;
}

type Mark = 0 | 1 | 2 | 3 | 4 | 5;
const plain = 0;
const quote = 1;
const comma = 2;
const colon = 3;
const opening = 4;
const closing = 5;

/** What each character means outside of strings. */
const marks = new Uint8Array(128);
marks.set([quote], 0x22);
marks.set([comma], 0x2c);
marks.set([colon], 0x3a);
marks.set([opening], 0x5b);
marks.set([closing], 0x5d);
marks.set([opening], 0x7b);
marks.set([closing], 0x7d);

const backslash = 0x5c;

export function scanJson(text: string, bounds: JsonBounds): JsonCounts {
  const scan = new Scan(bounds);
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    const mark = (code < 128 ? marks[code] : plain) as Mark;
    if (mark === plain) continue;
    if (mark === quote) at = endOfString(text, at);
    else scan.count(mark, text, at);
    if (at === -1 || scan.isOver) break;
  }
  const { names, values, exceeded } = scan;
  return { names, values, exceeded };
}

class Scan {
  readonly #bounds: JsonBounds;
  names = 0;
  /** The text itself is one; each comma and each array or object that is not empty adds one. */
  values = 1;
  #depth = 0;

  constructor(bounds: JsonBounds) {
    this.#bounds = bounds;
  }

  count(mark: Exclude<Mark, 0 | 1>, text: string, at: number): void {
    switch (mark) {
      case comma:
        this.values += 1;
        return;
      case colon:
        this.names += 1;
        return;
      case opening:
        this.values += 1;
        this.#depth += 1;
        return;
      case closing:
        this.#depth -= 1;
        if (isEmpty(text, at)) this.values -= 1;
        return;
    }
  }

  /** An array that has just opened may yet turn out to be empty, so the last value is not held against it. */
  get isOver(): boolean {
    const { depth, names, values } = this.#bounds;
    return this.#depth > depth || this.names > names || this.values > values + depth;
  }

  get exceeded(): JsonCounts['exceeded'] {
    const { depth, names, values } = this.#bounds;
    if (this.#depth > depth) return 'depth';
    if (this.names > names) return 'names';
    return this.values > values ? 'values' : undefined;
  }
}

/** Whether the array or object that closes at `end` holds nothing. */
function isEmpty(text: string, end: number): boolean {
  let before = end - 1;
  while (isSpace(text.charCodeAt(before))) before -= 1;
  return marks[text.charCodeAt(before)] === opening;
}

function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;
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
