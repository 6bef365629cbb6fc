/**
 * CORS: pages from configured origins may read the API's responses. Other origins get byte-identical responses with or
 * without this file. A preflight contains no host, key or stack, so it is answered before any check of them.
 */

import type { Handler } from './api-listener.ts';
import type { Fields } from './exchange.ts';

/** Headers that pages may read in addition to the default ones: the request id's names, and whether and when to retry. */
const exposed = 'x-request-id, request-id, retry-after, x-should-retry';

/** `*` covers every header except Authorization. The wildcard does not work with cookies, but the API uses none. */
const preflightFields: Fields = [
  ...['access-control-allow-methods', 'GET, HEAD, POST'],
  ...['access-control-allow-headers', 'authorization, *'],
  ...['access-control-max-age', '600'],
];

/** Wraps the handler, or returns it unchanged if no origins are configured. */
export function withOrigins(origins: ReadonlySet<string>, handler: Handler): Handler {
  if (origins.size === 0) return handler;
  return async (exchange, fixed) => {
    const { head, answer, fault } = exchange;
    const { origin } = head.headers;
    if (origin === undefined || !origins.has(origin)) return handler(exchange, fixed);
    answer.setField('access-control-allow-origin', origin);
    answer.setField('vary', 'origin');
    const isPreflight =
      head.method === 'OPTIONS' && head.headers['access-control-request-method'] !== undefined;
    if (isPreflight && fault === undefined) {
      void answer.whole(204, undefined, preflightFields, undefined);
      exchange.discardBody();
      return undefined;
    }
    answer.setField('access-control-expose-headers', exposed);
    return handler(exchange, fixed);
  };
}
