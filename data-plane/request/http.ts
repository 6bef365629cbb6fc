/**
 * A request and its response as HTTP: a well-formed head, the path, the unread body, and complete answers, head and body in
 * one write. The one place where a refusal becomes bytes, so that refusals which must be identical are identical.
 */

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Surface } from '../../schemas/names.ts';
import { refusalKinds } from '../../schemas/refusals.ts';
import { Refusal } from '../../shared/decision/refusal.ts';
import { httpFault } from '../../shared/runtime/http-fault.ts';
import { headerBytesMax } from '../../shared/runtime/http-server.ts';

/** Bodies are read as they are; they are never decoded (RFC 9110, 8.4). */
export function refuseEncoded(request: IncomingMessage): void {
  const encoding = oneHeader(request, 'content-encoding')?.trim().toLowerCase();
  if (encoding === undefined || encoding === '' || encoding === 'identity') return;
  throw new Refusal('encoded body', 'Content-Encoding: is not supported; send the body as it is');
}

/** A client that waits with its body gets 100 Continue once its key was accepted and its size is known to fit. */
export function askForBody(request: IncomingMessage, response: ServerResponse): void {
  if (request.headers.expect !== undefined && request.httpVersion === '1.1') response.writeContinue();
}

/** The refusal of HTTP that could be read in two ways. */
export function badHttp(request: IncomingMessage): Refusal | undefined {
  const fault = httpFault(request);
  return fault === undefined ? undefined : new Refusal('bad http', fault);
}

/** Without its query. Of the absolute form, which is refused, the path that its envelope names. */
export function pathOf(target: string | undefined): string {
  const url = target?.replace(/^https?:\/\/[^/?]*/i, '');
  if (!url?.startsWith('/')) return '/';
  const query = url.indexOf('?');
  return query === -1 ? url : url.slice(0, query);
}

const requestLine = /^[^\s]{1,40} ([^\s]+) HTTP\/\d/;

/** The path of what the parser refused, where its first bytes are a request line. */
export function pathOfRefused(packet: Buffer | undefined): string {
  // The headers of a request have at most so many bytes, and so has its first line.
  return pathOf(requestLine.exec(packet?.toString('latin1', 0, headerBytesMax) ?? '')?.[1]);
}

/**
 * A header that may have a key. One that is empty counts as absent; of more than one, none is chosen: their values together are no
 * key, so the request is refused as one with a wrong key.
 */
export function credentialHeader({ rawHeaders }: IncomingMessage, name: string): string | undefined {
  let found: string | undefined;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (rawHeaders[i]?.toLowerCase() !== name) continue;
    const value = rawHeaders[i + 1]?.trim() ?? '';
    if (value !== '') found = found === undefined ? value : `${found}, ${value}`;
  }
  return found;
}

export function oneHeader(request: IncomingMessage, name: string): string | undefined {
  const value = request.headers[name];
  return Array.isArray(value) ? value.join(', ') : value;
}

export interface AnswerIds {
  readonly requestId: string;
  /** Of the path, never of the stack. */
  readonly surface: Surface;
}

/** The Anthropic-style SDKs read `request-id`. */
export function answerHeaders({ requestId, surface }: AnswerIds): Record<string, string> {
  return surface === 'anthropic'
    ? { 'x-request-id': requestId, 'request-id': requestId }
    : { 'x-request-id': requestId };
}

export function sendJson(
  response: ServerResponse,
  ids: AnswerIds,
  status: number,
  body: string,
  more: Record<string, string> = {},
): void {
  if (response.headersSent || response.destroyed) return;
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    ...answerHeaders(ids),
    ...more,
  });
  response.end(body);
}

/** `path` is the request's path without its query. */
export function sendRefusal(response: ServerResponse, ids: AnswerIds, refusal: Refusal, path: string): void {
  const more: Record<string, string> = {};
  if (refusalKinds[refusal.type].retry === 'never') more['x-should-retry'] = 'false';
  if (refusal.retryAfterSeconds !== undefined) more['retry-after'] = String(refusal.retryAfterSeconds);
  sendJson(response, ids, refusal.status, JSON.stringify(refusal.envelope(path)), more);
}
