/**
 * The input of a custom tool as its text comes: a model writes it as the one member of a JSON object, and the client reads the
 * text itself. Characters are decoded as soon as they are whole. Some models write the bare text, which is then the input.
 */
import { parseText } from '../../core/answer-json.ts';
import { NodeFailure } from '../../core/node-failure.ts';

/** A stream may last as long as its node likes; what it adds up to is held until its end. */
const charactersMax = 4 * 1024 * 1024;

const opening = /^\s*\{\s*"input"\s*:\s*"/;
/** As far as characters and escapes are whole. */
const wholeCharacters = /^(?:[^"\\]+|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*/;
const halfPair = /^\\u[dD][89abAB][0-9a-fA-F]{2}$/;
const halfPairCharacters = 6;
/** Models write them as they are. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: JSON has them escaped only.
const control = /[\u0000-\u001f]/g;

export class CustomInput {
  /** `opening`: the object may begin like every other one. */
  #form: 'opening' | 'text' | 'member' | 'closed' = 'opening';
  #pending = '';
  #length = 0;

  /** Nothing more of the input comes. */
  get isWhole(): boolean {
    return this.#form === 'closed';
  }

  /** Returns what the client reads of it. Throws NodeFailure. */
  add(added: string): string {
    this.#length += added.length;
    if (this.#length > charactersMax) throw new NodeFailure('too_large', 'the input of a tool is too large');
    if (this.#form === 'closed') return '';
    this.#pending += added;
    if (this.#form === 'opening') this.#open();
    if (this.#form === 'member') return this.#decode();
    return this.#form === 'text' ? this.#takePending() : '';
  }

  /** The last of it. Throws NodeFailure where the input is cut. */
  end(): string {
    if (this.#form === 'closed' || this.#form === 'text') return '';
    const value = this.#form === 'opening' ? parseText(this.#pending) : undefined;
    const { input } = (typeof value === 'object' && value !== null ? value : {}) as { input?: unknown };
    const isEmpty = this.#form === 'opening' && this.#pending.trim() === '';
    if (typeof input !== 'string' && !isEmpty)
      throw new NodeFailure('unusable', 'the input of a tool has no end');
    this.#form = 'closed';
    return typeof input === 'string' ? input : '';
  }

  #open(): void {
    const found = opening.exec(this.#pending)?.[0];
    if (found !== undefined) {
      this.#pending = this.#pending.slice(found.length);
      this.#form = 'member';
    } else if (/^\s*[^\s{]/.test(this.#pending)) this.#form = 'text';
  }

  #takePending(): string {
    const text = this.#pending;
    this.#pending = '';
    return text;
  }

  #decode(): string {
    const found = wholeCharacters.exec(this.#pending)?.[0] ?? '';
    const isAtEnd = this.#pending.charAt(found.length) === '"';
    const whole = isAtEnd ? found : withoutHalfPair(found);
    this.#pending = this.#pending.slice(whole.length);
    if (isAtEnd) this.#form = 'closed';
    const escaped = whole.replace(
      control,
      (one) => `\\u00${one.charCodeAt(0).toString(16).padStart(2, '0')}`,
    );
    const text: unknown = JSON.parse(`"${escaped}"`);
    return String(text);
  }
}

/** Where a backslash that is escaped itself stands before it, it is no half of a pair but a text that looks like one. */
function withoutHalfPair(text: string): string {
  const start = text.length - halfPairCharacters;
  if (!halfPair.test(text.slice(-halfPairCharacters))) return text;
  let at = start;
  while (text.charAt(at - 1) === '\\') at -= 1;
  return (start - at) % 2 === 0 ? text.slice(0, start) : text;
}
