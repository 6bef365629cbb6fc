/**
 * Complete answers: head and body in one write. The one place where a refusal becomes bytes, so that refusals which must
 * be identical are identical.
 */
import type { ServerResponse } from 'node:http';
import { refusalKinds } from '../../schemas/refusals.ts';
import type { Refusal } from '../../shared/decision/refusal.ts';

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
