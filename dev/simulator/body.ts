/**
 * Reads the body of a request, bounded.
 */
import type { IncomingMessage } from 'node:http';
import { ChunkBuffer } from '../../shared/runtime/chunk-buffer.ts';

/** Calls back with the whole body, or undefined when it is larger than `bytesMax`. Never calls back for a client that left. */
export function readBody(
  request: IncomingMessage,
  bytesMax: number,
  done: (body: Buffer | undefined) => void,
): void {
  const bytes = new ChunkBuffer({ bytesMax });
  let isTooLarge = false;
  request.on('data', (chunk: Buffer) => {
    if (isTooLarge || bytes.add(chunk)) return;
    isTooLarge = true;
    bytes.clear();
    done(undefined);
  });
  request.on('end', () => {
    if (!isTooLarge) done(bytes.whole());
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
