/** Collects the events of one streamed answer, numbered without gaps. */
export class ResponseEvents {
  #frames: string[] = [];
  #next = 0;

  add(type: string, members: object): void {
    const data = JSON.stringify({ type, sequence_number: this.#next++, ...members });
    this.#frames.push(`event: ${type}\ndata: ${data}\n\n`);
  }

  /** Adds an event with a response object. `response` must be JSON on one line. */
  addResponse(type: string, response: string): void {
    const head = `event: ${type}\ndata: {"type":"${type}","sequence_number":${this.#next++},"response":`;
    this.#frames.push(`${head}${response}}\n\n`);
  }

  /** Adds a delta, as nearly every event is. All deltas of a text share the same `head`. */
  addDelta(head: string, delta: string): void {
    this.#frames.push(`${head}${this.#next++},"delta":${JSON.stringify(delta)}}\n\n`);
  }

  /** Returns the frames added since the last call. */
  take(): string[] {
    const frames = this.#frames;
    this.#frames = [];
    return frames;
  }
}

/** Beginning of all deltas of one text, up to their sequence number. */
export function deltaHead(type: string, members: object): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...members }).slice(0, -1)},"sequence_number":`;
}
