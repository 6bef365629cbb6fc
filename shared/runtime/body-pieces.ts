/**
 * Reads bodies that Node's HTTP server parses: all pieces from a socket in one turn, at about 2 µs each. A client that sends
 * tiny pieces would block all others, so its connection is closed.
 */
import type { IncomingMessage } from 'node:http';

/** Pieces of one body that are accepted in one turn of the event loop, whatever their size. */
const piecesInTurnMax = 2048;
/** Required average size of the pieces once a turn exceeds that number, in bytes. */
const pieceBytesMin = 128;

/** The client left before it had sent its whole body, so nobody reads a response. */
export class ClientGone extends Error {
  override readonly name = 'ClientGone';
}

/** Passes a body's pieces on. Rejects with ClientGone, or with an error of `onPiece`, and then discards the rest. */
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
    request.once('close', () => reject(new ClientGone('the client did not send its whole body')));
    request.on('error', () => undefined);
  });
}

/** Discards the rest of a refused request's body, within its timeout, so that the client reads the refusal. */
export function dropBody(request: IncomingMessage): void {
  if (request.complete || request.listenerCount('data') > 0) return;
  boundPieces(request);
  request.on('error', () => undefined);
}

/** Closes the connection if the body arrives in too many small pieces. Also starts the flow of the body. */
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
