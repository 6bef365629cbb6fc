/** Converts header fields to the object that `node:http` would provide: one value per name, with names in lower case. */
import type { IncomingHttpHeaders } from 'node:http';

/** Fields of which only the first value is kept. Several values of any other field are joined. */
const single = new Set([
  ...['age', 'authorization', 'content-length', 'content-type', 'etag', 'expires', 'from', 'host'],
  ...['if-modified-since', 'if-unmodified-since', 'last-modified', 'location', 'max-forwards'],
  ...['proxy-authorization', 'referer', 'retry-after', 'server', 'user-agent'],
]);

export function toHeaderObject(fields: readonly string[]): IncomingHttpHeaders {
  const headers: Record<string, string | string[] | undefined> = Object.create(null);
  for (let i = 0; i < fields.length; i += 2) {
    const name = (fields[i] as string).toLowerCase();
    const value = fields[i + 1] as string;
    // Drop a field named `__proto__`, as `node:http` does, because assigning it would set the object's prototype.
    if (name === '__proto__') continue;
    const known = headers[name];
    if (name === 'set-cookie') headers[name] = Array.isArray(known) ? [...known, value] : [value];
    else if (known === undefined) headers[name] = value;
    else if (!single.has(name))
      headers[name] = `${known as string}${name === 'cookie' ? '; ' : ', '}${value}`;
  }
  return headers;
}
