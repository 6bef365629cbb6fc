/**
 * A request and its response as HTTP: a well-formed head, the path, the unread body, and complete answers, head and body in
 * one write. The one place where a refusal becomes bytes, so that refusals which must be identical are identical.
 */

import type { IncomingMessage, ServerResponse } from 'node:http';
import { refusalKinds } from '../../schemas/refusals.ts';
import { Refusal } from '../../shared/decision/refusal.ts';

/** Pieces of a body read before other connections get their turn. */
const piecesInTurnMax = 512;

/** How long the rest of a refused request's body may take. */
const restMsMax = 10_000;

/** Reads and drops what is left of a refused request's body, so that the client gets to read the refusal; bounded. */
export function discardRest(request: IncomingMessage): void {
  if (request.complete) return;
  const restBytesMax = 64 * 1024 * 1024;
  let bytes = 0;
  request.on('error', () => undefined);
  const turns = new Turns();
  request.on('data', (chunk: Buffer) => {
    turns.count(request);
    bytes += chunk.length;
    if (bytes > restBytesMax) request.destroy();
  });
  const late = setTimeout(() => request.destroy(), restMsMax).unref();
  request.on('close', () => clearTimeout(late));
  request.resume();
}

/**
 * Lets other connections have their turn after so many pieces of a body, because a client may send each byte as one.
 * What has been read from the socket already waits then, which is no more than the listener's `highWaterMark`.
 */
export class Turns {
  #pieces = 0;

  /** Called for each piece. */
  count(request: IncomingMessage): void {
    this.#pieces += 1;
    if (this.#pieces < piecesInTurnMax) return;
    this.#pieces = 0;
    request.pause();
    setImmediate(() => request.resume());
  }
}

/** Bodies are read as they are; they are never decoded (RFC 9110, 8.4). */
export function refuseEncoded(request: IncomingMessage): void {
  const encoding = oneHeader(request, 'content-encoding')?.trim().toLowerCase();
  if (encoding === undefined || encoding === '' || encoding === 'identity') return;
  throw new Refusal('UnsupportedShapeError', 'Content-Encoding: is not supported; send the body as it is', {
    reason: 'encoded body',
  });
}

/** A client that waits with its body gets 100 Continue once its key was accepted and its size is known to fit. */
export function askForBody(request: IncomingMessage, response: ServerResponse): void {
  if (request.headers.expect !== undefined && request.httpVersion === '1.1') response.writeContinue();
}

/** HTTP that could be read in two ways is refused before anything else (RFC 9112, 3.2). */
export function checkHttp(request: IncomingMessage): void {
  const bad = (message: string): Refusal =>
    new Refusal('UnsupportedShapeError', message, { reason: 'bad http' });
  if (!request.url?.startsWith('/')) throw bad('The request target must be a path.');
  const { rawHeaders } = request;
  let hosts = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) if (isHost(rawHeaders[i] as string)) hosts++;
  if (hosts > 1) throw bad('The request has more than one Host header.');
  const version = request.httpVersion;
  if (version !== '1.1' && version !== '1.0') throw bad('This version of HTTP is not spoken here.');
  if (version === '1.1' && hosts === 0) throw bad('The request has no Host header.');
  // RFC 9112 (6.1) has 501 for a coding that is not understood; the registry of refusals has no such kind, so it is 400.
  const coding = request.headers['transfer-encoding'];
  if (coding !== undefined && (coding.trim().toLowerCase() !== 'chunked' || version === '1.0'))
    throw bad('The Transfer-Encoding header names a coding that is not understood: only "chunked" is.');
  const expect = request.headers.expect;
  if (expect !== undefined && expect.toLowerCase() !== '100-continue')
    throw bad('The Expect header asks for what is not offered.');
}

function isHost(name: string): boolean {
  return name.length === 4 && name.toLowerCase() === 'host';
}

export function pathOf(url: string | undefined): string {
  if (!url?.startsWith('/')) return '/';
  const query = url.indexOf('?');
  return query === -1 ? url : url.slice(0, query);
}

export function oneHeader(request: IncomingMessage, name: string): string | undefined {
  const value = request.headers[name];
  return Array.isArray(value) ? value.join(', ') : value;
}

export interface AnswerIds {
  readonly requestId: string;
  /** The Anthropic-style SDKs read `request-id`; sent by path, never by stack. */
  readonly anthropicPath: boolean;
}

export function answerHeaders({ requestId, anthropicPath }: AnswerIds): Record<string, string> {
  return anthropicPath
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
