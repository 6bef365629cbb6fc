/**
 * Client of the gateway's API for the specification tests. Each call uses a raw connection of its own and keeps every byte of
 * the answer. Reading a refusal also checks its error envelope, so tests need not repeat that.
 */
import { expect } from 'vitest';
import { type ErrorEnvelope, type RefusalType, refusalKinds } from '../../schemas/api/refusals.ts';
import { type RawAnswer, rawRequest, requestText } from './raw-http.ts';

export interface Call {
  readonly method?: string;
  readonly path?: string;
  readonly host?: string;
  /** API key, sent as `Authorization: Bearer`. */
  readonly key?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Strings are sent unchanged, other values as JSON. */
  readonly body?: unknown;
  readonly port: number;
}

export interface Answer extends RawAnswer {
  /** Headers of the answer by lower-case name. If a header occurs twice, the last value counts. */
  readonly fields: Readonly<Record<string, string>>;
  /** The body without its chunked framing. */
  readonly content: string;
  /** True if the whole answer arrived. False if the connection closed before the end that the headers announced. */
  readonly whole: boolean;
}

export async function call({ port, key, headers = {}, body, ...parts }: Call): Promise<Answer> {
  const text = body === undefined || typeof body === 'string' ? body : JSON.stringify(body);
  const bearer = key === undefined ? {} : { Authorization: `Bearer ${key}` };
  const request = requestText({
    ...parts,
    headers: { ...bearer, ...headers },
    ...(text !== undefined && { body: text }),
  });
  return answerOf(await rawRequest(port, request, 20_000));
}

/** Body of a chat completion with one short message. `more` adds or replaces fields. */
export function chatBody(model: string, more: Readonly<Record<string, unknown>> = {}): object {
  return { model, messages: [{ role: 'user', content: 'hello there' }], ...more };
}

export interface ChatCall extends Omit<Call, 'body' | 'method'> {
  readonly model: string;
  readonly more?: Readonly<Record<string, unknown>>;
}

export function chat({ model, more, ...rest }: ChatCall): Promise<Answer> {
  return call({ path: '/v1/chat/completions', ...rest, method: 'POST', body: chatBody(model, more) });
}

export function answerOf(raw: RawAnswer): Answer {
  const fields: Record<string, string> = {};
  for (const line of raw.headers) {
    const colon = line.indexOf(':');
    fields[line.slice(0, colon).toLowerCase()] = line.slice(colon + 1).trim();
  }
  if (fields['transfer-encoding'] === 'chunked') return { ...raw, fields, ...unchunked(raw.body) };
  const promised = fields['content-length'];
  return {
    ...raw,
    fields,
    content: raw.body,
    whole: promised === undefined || Number(promised) === Buffer.byteLength(raw.body, 'latin1'),
  };
}

function unchunked(body: string): { content: string; whole: boolean } {
  let content = '';
  let at = 0;
  for (;;) {
    const end = body.indexOf('\r\n', at);
    if (end === -1) return { content, whole: false };
    const size = Number.parseInt(body.slice(at, end), 16);
    if (size === 0) return { content, whole: true };
    content += body.slice(end + 2, end + 2 + size);
    at = end + 2 + size + 2;
  }
}

/**
 * Returns the refusal in an answer. Checks status, envelope, `x-should-retry` and `Retry-After` against the list of refusals.
 */
export function refusalOf(answer: Answer): ErrorEnvelope['error'] {
  const envelope = JSON.parse(answer.content) as ErrorEnvelope;
  expect(Object.keys(envelope)).toEqual(['error']);
  const { error } = envelope;
  expect(Object.keys(error)).toEqual(['code', 'type', 'message', 'status', 'path']);
  const kind = refusalKinds[error.type];
  expect(error, 'a type of the registry').toMatchObject({ status: kind.status, code: kind.code });
  expect(answer.status).toBe(kind.status);
  const { fields } = answer;
  expect(fields['content-type']).toBe('application/json');
  expect(fields['x-request-id']).toMatch(/^req_[0-9a-f]{32}$/);
  expect(fields['x-should-retry']).toBe(kind.retry === 'never' ? 'false' : undefined);
  expect(fields['retry-after'] !== undefined, 'Retry-After').toBe(kind.retry === 'retry-after');
  expect(Object.keys(fields).filter((name) => name.startsWith('x-ratelimit'))).toEqual([]);
  return error;
}

/** Asserts that the answer is this refusal and returns the content of its envelope. */
export function expectRefusal(answer: Answer, type: RefusalType): ErrorEnvelope['error'] {
  const error = refusalOf(answer);
  expect(error.type).toBe(type);
  return error;
}

/** Returns the data frames of an event stream. */
export function framesOf(answer: Answer): string[] {
  return answer.content
    .split('\n\n')
    .filter((frame) => frame.startsWith('data: '))
    .map((frame) => frame.slice('data: '.length));
}
