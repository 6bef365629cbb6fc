/** The refusals that a listener makes before there is a request to handle, in the one envelope. */
import { STATUS_CODES } from 'node:http';
import { Refusal } from '../../shared/decision/refusal.ts';
import type { Target } from '../../shared/decision/route.ts';
import { headerBytesMax } from '../../shared/runtime/http-server.ts';

/** Nothing is known of the request but what is here. */
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

/** A whole answer, after which the connection ends. */
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
