/** Reads the body of a request, bounded. */
import type { IncomingMessage } from 'node:http';
import { ClientGone, readPieces } from '../../shared/runtime/body-pieces.ts';
import { ChunkBuffer } from '../../shared/runtime/chunk-buffer.ts';

/** Calls back with the whole body, or with undefined once it is larger than `bytesMax`. Never calls back for a client that left. */
export function readBody(
  request: IncomingMessage,
  bytesMax: number,
  done: (body: Buffer | undefined) => void,
): void {
  const bytes = new ChunkBuffer({ bytesMax });
  readPieces(request, (piece) => {
    if (!bytes.add(piece)) throw new RangeError('the body is too large');
  }).then(
    () => done(bytes.whole()),
    (error: unknown) => {
      if (!(error instanceof ClientGone)) done(undefined);
    },
  );
}

/** The JSON value of a body, or undefined where it is none. */
export function jsonOf(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'));
  } catch {
    return undefined;
  }
}
