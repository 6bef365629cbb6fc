/** Sends HTTP requests to the untrusted engine. Does not follow redirects, and limits waiting times and response sizes. */
import { type Dispatcher, request } from 'undici';
import { ChunkBuffer } from '../shared/runtime/chunk-buffer.ts';
import { member } from '../shared/runtime/member.ts';

export interface EngineTarget {
  /** Base URL without a trailing slash. */
  readonly url: string;
  readonly credential?: string | undefined;
}

export interface EngineRequest {
  readonly method?: 'GET' | 'POST' | 'DELETE';
  readonly path: string;
  readonly body?: object;
  /** Time limit in ms for the response headers, and for each gap between two parts of the body. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}

const responseBytesMax = 4 * 1024 * 1024;

/** Thrown if the engine responds with a status other than 200. */
export class EngineError extends Error {
  override readonly name = 'EngineError';
  readonly status: number;

  constructor(status: number, text: string) {
    super(parseReason(text) ?? `the engine answered ${status}`);
    this.status = status;
  }
}

/** Returns the response body. Throws `EngineError` for any status other than 200, and the errors from `undici`. */
export async function requestEngine(target: EngineTarget, engineRequest: EngineRequest): Promise<string> {
  const bytes = new ChunkBuffer({ bytesMax: responseBytesMax });
  for await (const part of streamEngine(target, engineRequest)) {
    if (!bytes.add(Buffer.from(part))) throw new Error('the response is too large');
  }
  return bytes.whole().toString('utf8');
}

/** Yields the parts of a response body as they arrive. Throws the same errors as `requestEngine`. */
export async function* streamEngine(
  target: EngineTarget,
  engineRequest: EngineRequest,
): AsyncGenerator<string, void, undefined> {
  const { statusCode, body } = await send(target, engineRequest);
  body.setEncoding('utf8');
  const parts: AsyncIterable<string> = body;
  if (statusCode === 200) {
    yield* parts;
    return;
  }
  let text = '';
  for await (const part of parts) {
    text += part;
    if (text.length > 10_000) break;
  }
  throw new EngineError(statusCode, text);
}

function send(target: EngineTarget, engineRequest: EngineRequest): Promise<Dispatcher.ResponseData> {
  const { method = 'GET', path, body, timeoutMs, signal } = engineRequest;
  return request(target.url + path, {
    method,
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    headers: {
      ...(target.credential !== undefined && { authorization: `Bearer ${target.credential}` }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
    },
    body: body === undefined ? null : JSON.stringify(body),
    ...(signal && { signal }),
  });
}

/** Extracts the error message from an engine's response, as a single line. */
function parseReason(text: string): string | undefined {
  try {
    const answer: unknown = JSON.parse(text);
    const error = member(answer, 'error') ?? member(answer, 'detail') ?? member(answer, 'message');
    const message = typeof error === 'string' ? error : member(error, 'message');
    return typeof message === 'string' ? oneLine(message) : undefined;
  } catch {
    return undefined;
  }
}

export function oneLine(text: string): string | undefined {
  const line = text
    .replace(/[\p{Cc}\p{Cs}]+/gu, ' ')
    .trim()
    .slice(0, 150);
  return line === '' ? undefined : line.toWellFormed();
}
