/**
 * Reads the bodies that Node's own HTTP server parses. Node parses all that it has read from a socket within one turn of the event
 * loop, at about 2 µs per piece, so a client that sends tiny pieces could hold up all others. Its connection is ended.
 */
import type { IncomingMessage } from 'node:http';

/** Pieces of one body in one turn of the event loop; further ones must be large. */
const piecesInTurnMax = 2048;
/** Average size of the pieces from then on, bytes. */
const pieceBytesMin = 128;

/** The client left before its body was whole, so nobody reads an answer. */
export class ClientGone extends Error {
  override readonly name = 'ClientGone';
}

/**
 * Passes on each piece of a body. Resolves at its end, and rejects with ClientGone if the connection closes before. If `onPiece`
 * throws, rejects with that error, and drops the rest so that the client reads the refusal.
 */
export function readPieces(request: IncomingMessage, onPiece: (piece: Buffer) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    let take = onPiece;
    boundPieces(request);
    request.on('data', (piece: Buffer) => {
      try {
        take(piece);
      } catch (error) {
        take = () => undefined;
        reject(error);
      }
    });
    request.once('end', resolve);
    request.once('close', () => reject(new ClientGone('the client did not send its body whole')));
    request.on('error', () => undefined);
  });
}

/** Drops the rest of a refused request's body, so that the client reads the refusal. The request's timeout bounds it. */
export function dropBody(request: IncomingMessage): void {
  if (request.complete || request.listenerCount('data') > 0) return;
  boundPieces(request);
  request.on('error', () => undefined);
}

/** Also starts the flow of the body. */
function boundPieces(request: IncomingMessage): void {
  let pieces = 0;
  let bytes = 0;
  request.on('data', (piece: Buffer) => {
    if (pieces === 0)
      setImmediate(() => {
        pieces = 0;
        bytes = 0;
      });
    pieces++;
    bytes += piece.length;
    if (pieces > piecesInTurnMax && bytes < pieces * pieceBytesMin) request.socket.destroy();
  });
}
