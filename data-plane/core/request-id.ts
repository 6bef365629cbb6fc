/** Ids of requests and answers: opaque, ours, and silent about where anything ran. */
import { randomUUID } from 'node:crypto';

function mint(prefix: string): string {
  return prefix + randomUUID().replaceAll('-', '');
}

/** `x-request-id`, on every answer. */
export function mintRequestId(): string {
  return mint('req_');
}

/** `id` of a completion. */
export function mintCompletionId(): string {
  return mint('chatcmpl-');
}
