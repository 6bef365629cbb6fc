/**
 * Keeps the original text of JSON that is passed on, such as a schema, together with its parsed value. `JSON.stringify` would
 * change the text: doubles hold only 53 bits of an integer, `1e400` becomes `null`, and integer-like names move to the front.
 * So the gateway checks the value, but sends nodes and clients the text.
 */
import { endOfString, skipSpace } from '../../../shared/runtime/json-scan.ts';

const texts = new WeakMap<object, string>();

/** Tree of member names that leads to the objects whose text is kept. `*` stands for every element of an array. */
export interface KeptPaths {
  readonly [name: string]: KeptPaths | 'kept';
}

/** Remembers the JSON text from which `value` was parsed, and returns `value`. */
export function keepText<Value extends object>(value: Value, text: string): Value {
  texts.set(value, text);
  return value;
}

/** Keeps the texts of the objects at `paths`. `json` is the text of `value`, in which no object may repeat a name. */
export function keepTexts(json: string, value: object, paths: KeptPaths): void {
  for (const name in paths) {
    if (!Object.hasOwn(value, name)) continue;
    new TextWalk(json).read(value, paths);
    return;
  }
}

/** Writes a value as JSON, using the original text of each object whose text was kept. */
export function writeJson(value: unknown): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  const kept = texts.get(value);
  if (kept !== undefined) return kept;
  if (Array.isArray(value)) return `[${value.map(writeJson).join()}]`;
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${writeJson(member)}`).join()}}`;
}

/** Walks through a JSON text and its parsed value together, and skips everything that no path leads to. */
class TextWalk {
  readonly #json: string;
  #at = 0;

  constructor(json: string) {
    this.#json = json;
  }

  /** Reads one value, including any white space before it. */
  read(value: unknown, paths: KeptPaths | 'kept' | undefined): void {
    this.#at = skipSpace(this.#json, this.#at);
    const start = this.#at;
    if (paths === undefined || paths === 'kept' || typeof value !== 'object' || value === null) this.#pass();
    else if (Array.isArray(value)) this.#readArray(value, paths['*']);
    else this.#readObject(value as Record<string, unknown>, paths);
    // Copy the text, because a slice would keep the whole body in memory.
    if (paths === 'kept' && typeof value === 'object' && value !== null)
      texts.set(value, Buffer.from(this.#json.slice(start, this.#at)).toString());
  }

  #readArray(elements: readonly unknown[], paths: KeptPaths | 'kept' | undefined): void {
    this.#at += 1;
    for (const element of elements) {
      this.read(element, paths);
      this.#at = skipSpace(this.#json, this.#at) + 1;
    }
    if (elements.length === 0) this.#at = skipSpace(this.#json, this.#at) + 1;
  }

  #readObject(object: Readonly<Record<string, unknown>>, paths: KeptPaths): void {
    const count = Object.keys(object).length;
    this.#at += 1;
    for (let n = 0; n < count; n += 1) {
      const start = skipSpace(this.#json, this.#at);
      this.#pass(start);
      const name = String(JSON.parse(this.#json.slice(start, this.#at)));
      this.#at = skipSpace(this.#json, this.#at) + 1;
      this.read(object[name], Object.hasOwn(paths, name) ? paths[name] : undefined);
      this.#at = skipSpace(this.#json, this.#at) + 1;
    }
    if (count === 0) this.#at = skipSpace(this.#json, this.#at) + 1;
  }

  /** Moves to the end of the value that begins at `start`. */
  #pass(start = this.#at): void {
    let depth = 0;
    for (let at = start; at < this.#json.length; at += 1) {
      const code = this.#json.charCodeAt(at);
      if (code === 0x22) at = endOfString(this.#json, at);
      else if (code === 0x7b || code === 0x5b) depth += 1;
      else if (code === 0x7d || code === 0x5d) depth -= 1;
      else if (depth > 0 || !isEndOfValue(this.#json.charCodeAt(at + 1))) continue;
      if (depth > 0) continue;
      this.#at = at + 1;
      return;
    }
  }
}

/** Whether a number or literal ends before this character code, which is NaN at the end of the text. */
function isEndOfValue(code: number): boolean {
  return code === 0x2c || code === 0x5d || code === 0x7d || code <= 0x20 || Number.isNaN(code);
}
