/** Refusals that a listener sends if a request cannot be handled at all. They have the same format as all other refusals. */
import { STATUS_CODES } from 'node:http';
import { Refusal } from '../../shared/decision/refusal.ts';
import type { Target } from '../../shared/decision/route.ts';
import { headerBytesMax } from '../../shared/runtime/http-server.ts';

/** Everything known about a request that was refused before it could be handled. */
export interface EarlyRefusal {
  readonly requestId: string;
  readonly refusal: Refusal;
  readonly target?: Target | undefined;
}

export function badRequest(): Refusal {
  return new Refusal('bad http', 'The request is not well-formed HTTP.');
}

export function largeHead(): Refusal {
  return new Refusal('large headers', `The request's headers are larger than ${headerBytesMax} bytes.`);
}

/** Complete response with a refusal, as text. The connection closes after it. */
export function rawAnswer({ requestId, refusal }: EarlyRefusal, path = '/'): string {
  const body = JSON.stringify(refusal.envelope(path));
  return [
    `HTTP/1.1 ${refusal.status} ${STATUS_CODES[refusal.status]}`,
    'content-type: application/json',
    `content-length: ${Buffer.byteLength(body)}`,
    `x-request-id: ${requestId}`,
    ...(refusal.retryAfterSeconds === undefined
      ? ['x-should-retry: false']
      : [`retry-after: ${refusal.retryAfterSeconds}`]),
    'connection: close',
    '',
    body,
  ].join('\r\n');
}
