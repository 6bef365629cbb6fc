/** Ids of requests and answers: opaque, chosen by the gateway, and without a trace of where anything ran. */
import { randomUUID } from 'node:crypto';

/** `x-request-id`, on every answer. */
export function mintRequestId(): string {
  return `req_${mintUnique()}`;
}

/** The end of an answer's id, unique to it. */
export function mintUnique(): string {
  return randomUUID().replaceAll('-', '');
}
