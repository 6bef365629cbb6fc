/**
 * The plan of an answer: head, parts, pace and end, before anything is written. Faults change a plan;
 * emission.ts writes it. Parts are made one at a time, so a long stream is never in memory as a whole.
 */

export interface Plan {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** What is written, in order; each part is one write at most. */
  readonly parts: Iterable<string>;
  /** Wait before the first part. */
  readonly firstPartMs: number;
  /** Wait between two parts; 0 writes as fast as the client reads. */
  readonly gapMs: number;
  /** `end`: clean end of the answer. `cut`: the connection ends after what was written, unfinished. `reset`: so, by RST. `hold`: it stays open. */
  readonly end: 'end' | 'cut' | 'reset' | 'hold';
  /** While held open, a comment is written this often. */
  readonly commentEveryMs?: number;
  /** True for an event stream. */
  readonly stream: boolean;
  /** The parts are bytes of the connection, one a character, the head among them; status and headers are not used. */
  readonly raw?: boolean;
  /** The completion or embedding that the plan carries, and what it is worth; undefined for anything else. */
  readonly work?: { readonly id: string; readonly promptTokens: number; readonly completionTokens: number };
}

/** The line that ends a stream. */
export const doneFrame = 'data: [DONE]\n\n';

/** A whole JSON answer. */
export function jsonPlan(
  status: number,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): Plan {
  return bodyPlan(status, body === undefined ? '' : JSON.stringify(body), 'application/json', headers);
}

/** A whole answer of any text. */
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
    end: 'end',
    stream: false,
  };
}

/** An event stream. */
export function streamPlan(parts: Iterable<string>, gapMs: number): Plan {
  return {
    status: 200,
    headers: { 'content-type': 'text/event-stream; charset=utf-8' },
    parts,
    firstPartMs: gapMs,
    gapMs,
    end: 'end',
    stream: true,
  };
}

/** The first `count` parts. */
export function* take(parts: Iterable<string>, count: number): Generator<string> {
  let taken = 0;
  if (count === 0) return;
  for (const part of parts) {
    yield part;
    taken += 1;
    if (taken >= count) return;
  }
}

/** Every part but the terminator. */
export function* withoutDone(parts: Iterable<string>): Generator<string> {
  for (const part of parts) if (part !== doneFrame) yield part;
}

/** All parts of all lists. */
export function* joined(...lists: readonly Iterable<string>[]): Generator<string> {
  for (const list of lists) yield* list;
}
