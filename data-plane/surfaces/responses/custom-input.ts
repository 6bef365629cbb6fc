/**
 * Decodes the input of a custom tool while it arrives. The model writes the input either as the only member of a JSON object
 * or directly as text, and the client always gets the text. Each character is decoded as soon as it is complete and read only
 * once.
 */

import { parseText } from '../common/answer-json.ts';
import { noArguments } from '../common/chat-parts.ts';
import { NodeFailure } from '../common/node-failure.ts';

/** Maximum length of the input. All of the input must be held, and a node may stream for as long as it likes. */
const charactersMax = 4 * 1024 * 1024;

const opening = '{"input":"';
/** Positions in `opening` at which JSON allows white space to be inserted. */
const gaps: readonly number[] = [0, 1, 8, 9];
/** Maximum number of blanks in `opening`, because some models write white space in an endless loop. */
const blanksMax = 4 * 1024;

/** Matches all complete characters and escapes at the start of a text. */
const wholeCharacters = /^(?:[^"\\]+|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*/;
const halfPair = /^\\u[dD][89abAB][0-9a-fA-F]{2}$/;
const halfPairCharacters = 6;
/** Maximum length of text that cannot be decoded yet: an escaped high surrogate and an incomplete escape. */
const undecodedMax = 2 * halfPairCharacters - 1;
/** Matches control characters, which models write without the escapes that JSON requires. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: JSON has them escaped only.
const control = /[\u0000-\u001f]/g;

export class CustomInput {
  /** Form of the input. An `opening` may become a `member`, the text after `{"input":"`. An `object` is parsed at its end. */
  #form: 'opening' | 'object' | 'text' | 'member' | 'closed' = 'opening';
  #pending = '';
  #length = 0;
  /** Number of characters of `opening` that have been read. */
  #opened = 0;
  #blanks = 0;

  get isWhole(): boolean {
    return this.#form === 'closed';
  }

  /** Adds text and returns the part that the client can get now. Throws `NodeFailure` if the input is invalid. */
  add(added: string): string {
    this.#length += added.length;
    if (this.#length > charactersMax) throw new NodeFailure('too_large', 'the input of a tool is too large');
    if (this.#form === 'closed') return '';
    const openedAt = this.#form === 'opening' ? this.#open(added) : undefined;
    this.#pending = openedAt === undefined ? this.#pending + added : added.slice(openedAt);
    if (this.#form === 'member') return this.#decode();
    return this.#form === 'text' ? this.#takePending() : '';
  }

  /** Ends the input and returns the rest of it. Throws `NodeFailure` if the input is incomplete. */
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

  /** Decides the form as early as possible. Returns the index at which the member's text begins, if it has begun. */
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

/** Removes an escaped high surrogate at the end of a text, unless the escape's backslash is itself escaped. */
function withoutHalfPair(text: string): string {
  const start = text.length - halfPairCharacters;
  if (!halfPair.test(text.slice(-halfPairCharacters))) return text;
  let at = start;
  while (text.charAt(at - 1) === '\\') at -= 1;
  return (start - at) % 2 === 0 ? text.slice(0, start) : text;
}
