/**
 * Tracks the growing JSON input of one tool call: whether it is complete, and its final value. If an engine writes anything
 * but an object, no client could read it, so the request fails. Each character is read once.
 */

import { parseText } from './answer-json.ts';
import { keepText } from './json-source.ts';
import { jsonDepthMax } from './json-text.ts';
import { NodeFailure } from './node-failure.ts';

/** Bound on the input, because a node may stream for as long as it likes and the input is held until the end. */
const inputCharactersMax = 4 * 1024 * 1024;

export class ToolInput {
  #text = '';
  /** Length of the text up to which closing everything open yields valid JSON. */
  #validTo = 0;
  /** Brackets that close everything open, outermost first. */
  readonly #closers: string[] = [];
  #isKeyNext = false;
  #inString = false;
  #isEscaped = false;
  #isWhole = false;

  /** Whether the input contains more than white space. */
  get #hasBegun(): boolean {
    return this.#text !== '';
  }

  /** Whether the object has been closed. */
  get isWhole(): boolean {
    return this.#isWhole;
  }

  /** Adds text and returns the part that belongs to the object. Throws NodeFailure. */
  add(added: string): string {
    const kept = this.#hasBegun ? added : added.trimStart();
    if (!this.#hasBegun && kept !== '' && !kept.startsWith('{')) throw notAnObject();
    if (this.#text.length + kept.length > inputCharactersMax)
      throw new NodeFailure('too_large', 'the input of a tool is too large');
    for (let at = 0; at < kept.length; at += 1) this.#look(kept.charAt(at), this.#text.length + at + 1);
    this.#text += kept;
    return kept;
  }

  /** Object in the text, as formatted; empty for an empty text. If `cut`, only its complete part. Throws NodeFailure. */
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

/** Lone surrogate. UTF-8 cannot encode it, but a JSON escape can. */
const halfPair = /\p{Surrogate}/gu;

function escapeUnit(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16)}`;
}

/** Parses a text to an object that keeps the text; undefined if it is another value or too large for one turn. */
function parseObject(text: string): object | undefined {
  const value = parseText(text);
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  return isObject ? keepText(value, text.replace(halfPair, escapeUnit)) : undefined;
}
