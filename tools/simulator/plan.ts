/** Plan of an answer before it is written. Parts are made one at a time, so a long stream never fills the memory. */

export interface Plan {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** The texts to write, in order. Each part is at most one write. */
  readonly parts: Iterable<string>;
  /** Wait before the first part, in ms. */
  readonly firstPartMs: number;
  /** Wait between two parts, in ms; 0 writes as fast as the client reads. */
  readonly gapMs: number;
  /** Whether the answer is an event stream. */
  readonly stream: boolean;
  /** The id and token counts of a completion or embedding; undefined for other answers. */
  readonly work?: { readonly id: string; readonly promptTokens: number; readonly completionTokens: number };
}

/** The line that ends a stream. */
export const doneFrame = 'data: [DONE]\n\n';

/** A complete JSON answer. */
export function jsonPlan(
  status: number,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): Plan {
  return bodyPlan(status, body === undefined ? '' : JSON.stringify(body), 'application/json', headers);
}

/** A complete answer with any text. */
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
