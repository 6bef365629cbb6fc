/**
 * Browsers: pages of the origins that an operator names may read answers of the API. Others get what they get without this,
 * to the byte. A preflight says nothing of host, key, path or stack, so it is answered before any of them is looked at.
 */

import type { Handler } from './api-listener.ts';
import type { Fields } from './exchange.ts';

/** What clients read of an answer, in addition to what every page may: its id by both names, and whether and when to ask again. */
const exposed = 'x-request-id, request-id, retry-after, x-should-retry';

/** `*` stands for every header but the credential; no cookie counts here, so none is allowed. */
const preflightFields: Fields = [
  ...['access-control-allow-methods', 'GET, HEAD, POST'],
  ...['access-control-allow-headers', 'authorization, *'],
  ...['access-control-max-age', '600'],
];

/** The handler itself where no origin is named. */
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
