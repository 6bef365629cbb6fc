/**
 * Lets web pages from the configured origins read the API's responses (CORS). For all other origins, responses are byte for
 * byte the same as without CORS. A preflight request names neither a key nor a stack, so it is answered before these are
 * checked.
 */

import type { Handler } from './api-listener.ts';
import type { Fields } from './exchange.ts';

/** Additional headers that web pages may read: the request id, and whether and when to retry the request. */
const exposed = 'x-request-id, request-id, retry-after, x-should-retry';

/** Response to a preflight request. `*` allows all headers but Authorization, and no cookies, which the API never uses. */
const preflightFields: Fields = [
  ...['access-control-allow-methods', 'GET, HEAD, POST'],
  ...['access-control-allow-headers', 'authorization, *'],
  ...['access-control-max-age', '600'],
];

/** Adds CORS to a handler. Returns the handler unchanged if no origins are configured. */
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
