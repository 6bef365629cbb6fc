/** Creates ids for requests and responses. An id is random and does not reveal where the request ran. */
import { randomFillSync } from 'node:crypto';

/** Creates the id that every response returns in `x-request-id`. */
export function mintRequestId(): string {
  return `req_${mintUnique()}`;
}

const idBytes = 16;
/** Random bytes for future ids, so that one system call serves many ids. */
const random = Buffer.allocUnsafeSlow(256 * idBytes);
let used = random.length;

/** Creates the unique part of a response's id from 128 random bits. */
export function mintUnique(): string {
  if (used === random.length) {
    randomFillSync(random);
    used = 0;
  }
  used += idBytes;
  return random.toString('hex', used - idBytes, used);
}
