/**
 * Reads request bodies that Node's HTTP server parses. Node passes on all pieces that a socket delivers in one turn, at about
 * 2 µs each. A client that sends tiny pieces would therefore block all others, so its connection is closed.
 */
import type { IncomingMessage } from 'node:http';

/** Number of pieces of one body that are accepted in one turn of the event loop, whatever their size. */
const piecesInTurnMax = 2048;
/** Average size in bytes that pieces must have once a turn has brought more than `piecesInTurnMax`. */
const pieceBytesMin = 128;

/** Thrown if the client disconnected before it had sent its whole body, so that nobody will read a response. */
export class ClientGone extends Error {
  override readonly name = 'ClientGone';
}

/** Calls `onPiece` for each piece. Rejects with `ClientGone` or an error from `onPiece`, and then discards the rest. */
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

/** Discards the rest of a refused request's body, within its timeout, so that the client can read the refusal. */
export function dropBody(request: IncomingMessage): void {
  if (request.complete || request.listenerCount('data') > 0) return;
  boundPieces(request);
  request.on('error', () => undefined);
}

/** Starts reading the body. Closes the connection if the body arrives in too many small pieces. */
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
