/**
 * Collects the JSON input of one tool call as it arrives. Clients can read only an object, so any other input makes the
 * request fail. Each character is read once.
 */

import { parseText } from './answer-json.ts';
import { keepText } from './json-source.ts';
import { jsonDepthMax } from './json-text.ts';
import { NodeFailure } from './node-failure.ts';

/** Maximum length of the input. All of the input must be held, and a node may stream for as long as it likes. */
const inputCharactersMax = 4 * 1024 * 1024;

export class ToolInput {
  #text = '';
  /** Length of the longest part from the start that becomes valid JSON once its open brackets are closed. */
  #validTo = 0;
  /** Closing brackets for all arrays and objects that are open, outermost first. */
  readonly #closers: string[] = [];
  #isKeyNext = false;
  #inString = false;
  #isEscaped = false;
  #isWhole = false;

  get #hasBegun(): boolean {
    return this.#text !== '';
  }

  get isWhole(): boolean {
    return this.#isWhole;
  }

  /** Adds text and returns it without white space before the object. Throws `NodeFailure` if the input is not an object. */
  add(added: string): string {
    const kept = this.#hasBegun ? added : added.trimStart();
    if (!this.#hasBegun && kept !== '' && !kept.startsWith('{')) throw notAnObject();
    if (this.#text.length + kept.length > inputCharactersMax)
      throw new NodeFailure('too_large', 'the input of a tool is too large');
    for (let at = 0; at < kept.length; at += 1) this.#look(kept.charAt(at), this.#text.length + at + 1);
    this.#text += kept;
    return kept;
  }

  /** Parses the input. Returns `{}` if it is empty. If `cut` is true, drops an incomplete end instead of throwing. */
  value(cut: boolean): object {
    if (!this.#hasBegun) return {};
    const value = parseObject(this.#text);
    if (value !== undefined) return value;
    if (!cut) throw notAnObject();
    const closed = this.#text.slice(0, this.#validTo) + this.#closers.toReversed().join('');
    return parseObject(closed) ?? {};
  }

  #look(character: string, endsAt: number): void {
    if (!this.#inString) this.#lookOutside(character, endsAt);
    else if (this.#isEscaped) this.#isEscaped = false;
    else if (character === '\\') this.#isEscaped = true;
    else if (character === '"') {
      this.#inString = false;
      if (!this.#isKeyNext) this.#validTo = endsAt;
    }
  }

  #lookOutside(character: string, endsAt: number): void {
    switch (character) {
      case '"':
        this.#inString = true;
        return;
      case '{':
      case '[':
        this.#closers.push(character === '{' ? '}' : ']');
        if (this.#closers.length > jsonDepthMax)
          throw new NodeFailure('too_large', 'the input of a tool is nested too deep');
        this.#isKeyNext = character === '{';
        this.#validTo = endsAt;
        return;
      case '}':
      case ']':
        this.#closers.pop();
        if (this.#closers.length === 0) this.#isWhole = true;
        this.#validTo = endsAt;
        return;
      case ',':
        this.#isKeyNext = this.#closers[this.#closers.length - 1] === '}';
        this.#validTo = endsAt - 1;
        return;
      case ':':
        this.#isKeyNext = false;
        return;
    }
  }
}

function notAnObject(): Error {
  return new NodeFailure('unusable', 'the input of a tool is not a JSON object');
}

/** Matches a lone surrogate, which UTF-8 cannot encode but a JSON escape can. */
const halfPair = /\p{Surrogate}/gu;

function escapeUnit(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16)}`;
}

/** Parses an object and keeps its text. Returns undefined if it is not an object, or too large to parse in one go. */
function parseObject(text: string): object | undefined {
  const value = parseText(text);
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  return isObject ? keepText(value, text.replace(halfPair, escapeUnit)) : undefined;
}
