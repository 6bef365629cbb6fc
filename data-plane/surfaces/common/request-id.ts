/** Creates ids of requests and answers. They are opaque and do not reveal where anything ran. */
import { randomFillSync } from 'node:crypto';

/** `x-request-id`, sent with every answer. */
export function mintRequestId(): string {
  return `req_${mintUnique()}`;
}

const idBytes = 16;
/** Random bytes for the next ids, so that one system call serves many. */
const random = Buffer.allocUnsafeSlow(256 * idBytes);
let used = random.length;

/** Unique end of an answer's id: 128 random bits. */
export function mintUnique(): string {
  if (used === random.length) {
    randomFillSync(random);
    used = 0;
  }
  used += idBytes;
  return random.toString('hex', used - idBytes, used);
}
