/** Collects the events of one stream of the Responses API and numbers them without gaps. */
export class ResponseEvents {
  #frames: string[] = [];
  #next = 0;

  add(type: string, members: object): void {
    const data = JSON.stringify({ type, sequence_number: this.#next++, ...members });
    this.#frames.push(`event: ${type}\ndata: ${data}\n\n`);
  }

  /** Adds an event that contains the whole response object. `response` must be JSON on one line. */
  addResponse(type: string, response: string): void {
    const head = `event: ${type}\ndata: {"type":"${type}","sequence_number":${this.#next++},"response":`;
    this.#frames.push(`${head}${response}}\n\n`);
  }

  /** Adds a delta, the most frequent event. `head` is the constant start that all deltas of the same text have. */
  addDelta(head: string, delta: string): void {
    this.#frames.push(`${head}${this.#next++},"delta":${JSON.stringify(delta)}}\n\n`);
  }

  /** Returns the frames that were added since the last call of this method. */
  take(): string[] {
    const frames = this.#frames;
    this.#frames = [];
    return frames;
  }
}

/** Constant start of all deltas of one text, up to the sequence number. */
export function deltaHead(type: string, members: object): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...members }).slice(0, -1)},"sequence_number":`;
}
