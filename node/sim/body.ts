/**
 * Reads the body of a request, bounded.
 */
import type { IncomingMessage } from 'node:http';

/** Gives the whole body, or undefined when it is larger than `bytesMax`. Never calls back for a client that left. */
export function readBody(
  request: IncomingMessage,
  bytesMax: number,
  done: (body: Buffer | undefined) => void,
): void {
  const chunks: Buffer[] = [];
  let bytes = 0;
  request.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes <= bytesMax) chunks.push(chunk);
    else if (bytes - chunk.length <= bytesMax) done(undefined);
  });
  request.on('end', () => {
    const [first] = chunks;
    if (bytes <= bytesMax) done(chunks.length === 1 && first !== undefined ? first : Buffer.concat(chunks));
  });
}

/** The JSON value of a body, or undefined where it is none. */
export function jsonOf(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'));
  } catch {
    return undefined;
  }
}
