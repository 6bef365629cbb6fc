/** Reads single header fields, and sends listings and refusals. No other file converts refusals to responses. */

import { refusalKinds } from '../../schemas/api/refusals.ts';
import type { Surface } from '../../schemas/names.ts';
import { fieldSeparator } from '../../shared/decision/authenticate.ts';
import { Refusal } from '../../shared/decision/refusal.ts';
import { headerBytesMax } from '../../shared/runtime/http-server.ts';
import type { Exchange, Fields } from './exchange.ts';
import type { ParsedRequest } from './message-head.ts';

/** Throws a refusal if the body is encoded. Encoded bodies are never decoded (RFC 9110, 8.4). */
export function refuseEncoded({ headers }: ParsedRequest): void {
  const encoding = headers['content-encoding']?.trim().toLowerCase();
  if (encoding === undefined || encoding === '' || encoding === 'identity') return;
  throw new Refusal('encoded body', 'Content-Encoding: is not supported; send the body without an encoding');
}

/** Returns a refusal if the request is ambiguous or invalid HTTP, or undefined if it is neither. */
export function badHttp({ fault }: Exchange): Refusal | undefined {
  return fault === undefined ? undefined : new Refusal('bad http', fault);
}

/**
 * Path of a request target, without the query. If the target is a whole URL, which is refused, returns its path for the error
 * message. Each character of a target stands for one byte. Bytes above 127 are read as UTF-8.
 */
export function targetPath(target: string | undefined): string {
  const url = target?.replace(/^https?:\/\/[^/?]*/i, '');
  if (!url?.startsWith('/')) return '/';
  const query = url.indexOf('?');
  const path = query === -1 ? url : url.slice(0, query);
  return /[\x80-\xff]/.test(path) ? Buffer.from(path, 'latin1').toString('utf8') : path;
}

const requestLine = /^[^\s]{1,40} ([^\s]+) HTTP\/\d/;

/** Path of a request that could not be read, if its first bytes are a request line. Otherwise, `/`. */
export function pathOfRefused(packet: Buffer | undefined): string {
  // Decode no more bytes than a head may have, because a request line cannot be longer.
  return targetPath(requestLine.exec(packet?.toString('latin1', 0, headerBytesMax) ?? '')?.[1]);
}

/** Value of a header that may contain a key. Empty counts as absent. If the header is repeated, no valid key results. */
export function credentialHeader({ rawHeaders }: ParsedRequest, name: string): string | undefined {
  let found: string | undefined;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (rawHeaders[i]?.toLowerCase() !== name) continue;
    const value = rawHeaders[i + 1]?.trim() ?? '';
    if (value !== '') found = found === undefined ? value : found + fieldSeparator + value;
  }
  return found;
}

export function oneHeader({ headers }: ParsedRequest, name: string): string | undefined {
  const value = headers[name];
  return Array.isArray(value) ? value.join(', ') : value;
}

export interface AnswerIds {
  readonly requestId: string;
  /** API to which the path belongs, even if the stack has chosen another API. */
  readonly surface: Surface;
}

/** Header fields that contain the request id. SDKs for the Anthropic-style API read the id from `request-id`. */
export function idFields({ requestId, surface }: AnswerIds): Fields {
  const id = ['x-request-id', requestId];
  return surface === 'anthropic' ? [...id, 'request-id', requestId] : id;
}

export const jsonType = 'application/json';
/** Content type of streams. Includes the charset, because some clients, such as Python's requests, would assume Latin-1. */
export const eventStreamType = 'text/event-stream; charset=utf-8';

export function sendJson({ answer }: Exchange, ids: AnswerIds, body: string): void {
  void answer.whole(200, jsonType, idFields(ids), body);
}

/** Sends a refusal, unless a response has begun. `path` is the path of the request without its query. */
export function sendRefusal({ answer }: Exchange, ids: AnswerIds, refusal: Refusal, path: string): void {
  const fields = [...idFields(ids)];
  if (refusalKinds[refusal.type].retry === 'never') fields.push('x-should-retry', 'false');
  if (refusal.retryAfterSeconds !== undefined) fields.push('retry-after', String(refusal.retryAfterSeconds));
  void answer.whole(refusal.status, jsonType, fields, JSON.stringify(refusal.envelope(path)));
}
