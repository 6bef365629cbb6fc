/** The events of one streamed answer, as they go over the wire: numbered without a gap. */
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

  /** Nearly every event: what it begins with is the same for all of one text. */
  addDelta(head: string, delta: string): void {
    this.#frames.push(`${head}${this.#next++},"delta":${JSON.stringify(delta)}}\n\n`);
  }

  /** The frames since the last time. */
  take(): string[] {
    const frames = this.#frames;
    this.#frames = [];
    return frames;
  }
}

/** What the deltas of one text begin with, up to their number. */
export function deltaHead(type: string, members: object): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...members }).slice(0, -1)},"sequence_number":`;
}
