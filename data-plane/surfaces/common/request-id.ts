/** Ids of requests and answers: opaque, chosen by the gateway, and without a trace of where anything ran. */
import { randomFillSync } from 'node:crypto';

/** `x-request-id`, on every answer. */
export function mintRequestId(): string {
  return `req_${mintUnique()}`;
}

const idBytes = 16;
/** Random bytes for the next ids: one call of the system's generator for many. */
const random = Buffer.allocUnsafeSlow(256 * idBytes);
let used = random.length;

/** The end of an answer's id, unique to it: 128 random bits. */
export function mintUnique(): string {
  if (used === random.length) {
    randomFillSync(random);
    used = 0;
  }
  used += idBytes;
  return random.toString('hex', used - idBytes, used);
}
