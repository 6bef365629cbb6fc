/**
 * Decodes a custom tool's input while it arrives. A model writes it as the only member of a JSON object, or directly as plain
 * text, which is what the client gets. Each character is decoded as soon as it is complete, and read once.
 */

import { parseText } from '../common/answer-json.ts';
import { noArguments } from '../common/chat-parts.ts';
import { NodeFailure } from '../common/node-failure.ts';

/** Bound on the input, because a node may stream for as long as it likes and the input is held until the end. */
const charactersMax = 4 * 1024 * 1024;

const opening = '{"input":"';
/** Indexes in `opening` before which JSON allows white space. */
const gaps: readonly number[] = [0, 1, 8, 9];
/** Maximum white space before an input, because some models write white space in an endless loop. */
const blanksMax = 4 * 1024;

/** Matches up to the last complete character or escape. */
const wholeCharacters = /^(?:[^"\\]+|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*/;
const halfPair = /^\\u[dD][89abAB][0-9a-fA-F]{2}$/;
const halfPairCharacters = 6;
/** Longest text that may wait to be decoded: an escaped high surrogate and an incomplete escape. */
const undecodedMax = 2 * halfPairCharacters - 1;
/** Control characters, which models write unescaped. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: JSON has them escaped only.
const control = /[\u0000-\u001f]/g;

export class CustomInput {
  /** `opening`: the text may be the start of `{"input":"`. `object`: another object, which is parsed at its end. */
  #form: 'opening' | 'object' | 'text' | 'member' | 'closed' = 'opening';
  #pending = '';
  #length = 0;
  /** Number of characters of `opening` that have arrived. */
  #opened = 0;
  #blanks = 0;

  /** Whether the input is complete. */
  get isWhole(): boolean {
    return this.#form === 'closed';
  }

  /** Adds text and returns the part that the client reads. Throws NodeFailure. */
  add(added: string): string {
    this.#length += added.length;
    if (this.#length > charactersMax) throw new NodeFailure('too_large', 'the input of a tool is too large');
    if (this.#form === 'closed') return '';
    const openedAt = this.#form === 'opening' ? this.#open(added) : undefined;
    this.#pending = openedAt === undefined ? this.#pending + added : added.slice(openedAt);
    if (this.#form === 'member') return this.#decode();
    return this.#form === 'text' ? this.#takePending() : '';
  }

  /** Returns the rest of the input. Throws NodeFailure if the input is incomplete. */
  end(): string {
    if (this.#form === 'closed' || this.#form === 'text') return '';
    const value = this.#form === 'member' ? undefined : parseText(this.#pending);
    const { input } = (typeof value === 'object' && value !== null ? value : {}) as { input?: unknown };
    const isEmpty = this.#form !== 'member' && ['', noArguments].includes(this.#pending.trim());
    if (typeof input !== 'string' && !isEmpty)
      throw new NodeFailure('unusable', 'the input of a tool has no end');
    this.#form = 'closed';
    return typeof input === 'string' ? input : '';
  }

  /** Decides the form as soon as the characters allow. Returns the index at which the member's text begins, if it does. */
  #open(added: string): number | undefined {
    for (let at = 0; at < added.length; at += 1) {
      const character = added.charAt(at);
      if (character === opening.charAt(this.#opened)) {
        this.#opened += 1;
        if (this.#opened < opening.length) continue;
        this.#form = 'member';
        return at + 1;
      }
      if (character.trim() !== '' || !gaps.includes(this.#opened)) {
        this.#form = this.#opened === 0 ? 'text' : 'object';
        return undefined;
      }
      this.#blanks += 1;
      if (this.#blanks > blanksMax)
        throw new NodeFailure('unusable', 'the input of a tool begins with too many blanks');
    }
    return undefined;
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
    else if (this.#pending.length > undecodedMax)
      throw new NodeFailure('unusable', 'the input of a tool has an escape that JSON does not have');
    const escaped = whole.replace(
      control,
      (one) => `\\u00${one.charCodeAt(0).toString(16).padStart(2, '0')}`,
    );
    const text: unknown = JSON.parse(`"${escaped}"`);
    return String(text);
  }
}

/** Removes an escaped high surrogate at the end. If its backslash is itself escaped, it is ordinary text and stays. */
function withoutHalfPair(text: string): string {
  const start = text.length - halfPairCharacters;
  if (!halfPair.test(text.slice(-halfPairCharacters))) return text;
  let at = start;
  while (text.charAt(at - 1) === '\\') at -= 1;
  return (start - at) % 2 === 0 ? text.slice(0, start) : text;
}
