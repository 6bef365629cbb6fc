/** Planned response, not written yet. Its parts are created one at a time, so that a long stream never fills the memory. */

export interface Plan {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** Texts to write, in order. Each is written whole, never split across several writes. */
  readonly parts: Iterable<string>;
  /** Time to wait before the first part, in ms. */
  readonly firstPartMs: number;
  /** Time to wait between two parts, in ms. With 0, parts are written as fast as the client reads. */
  readonly gapMs: number;
  readonly stream: boolean;
  /** Id and token counts of a completion or an embedding. Absent for other responses. */
  readonly work?: { readonly id: string; readonly promptTokens: number; readonly completionTokens: number };
}

/** Line that ends an event stream. */
export const doneFrame = 'data: [DONE]\n\n';

export function jsonPlan(
  status: number,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): Plan {
  return bodyPlan(status, body === undefined ? '' : JSON.stringify(body), 'application/json', headers);
}

/** Plans a complete response with any text. */
export function bodyPlan(
  status: number,
  text: string,
  contentType: string,
  headers: Readonly<Record<string, string>> = {},
): Plan {
  return {
    status,
    headers: { 'content-type': contentType, ...headers },
    parts: [text],
    firstPartMs: 0,
    gapMs: 0,
    stream: false,
  };
}

export function streamPlan(parts: Iterable<string>, gapMs: number): Plan {
  return {
    status: 200,
    headers: { 'content-type': 'text/event-stream; charset=utf-8' },
    parts,
    firstPartMs: gapMs,
    gapMs,
    stream: true,
  };
}
