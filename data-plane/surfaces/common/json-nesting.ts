/** Tracks whether the first value of a JSON text that arrives in pieces is complete, without storing the text. */
export class JsonNesting {
  #depth = 0;
  #inString = false;
  #isEscaped = false;
  #hasBegun = false;

  get hasBegun(): boolean {
    return this.#hasBegun;
  }

  /** Whether a value has begun and all its arrays, objects and strings are closed. */
  get isClosed(): boolean {
    return this.#hasBegun && this.#depth === 0 && !this.#inString;
  }

  add(text: string): void {
    this.#hasBegun ||= text.trim() !== '';
    for (let at = 0; at < text.length; at += 1) this.#look(text.charCodeAt(at));
  }

  #look(code: number): void {
    if (this.#isEscaped) this.#isEscaped = false;
    else if (this.#inString) {
      this.#isEscaped = code === 0x5c;
      this.#inString = code !== 0x22;
    } else if (code === 0x22) this.#inString = true;
    else if (code === 0x7b || code === 0x5b) this.#depth += 1;
    else if (code === 0x7d || code === 0x5d) this.#depth -= 1;
  }
}
