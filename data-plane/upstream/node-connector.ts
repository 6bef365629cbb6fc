/**
 * The connections of undici to one node, which it is made to read in small pieces. Where the head or the trailers of an answer exceed
 * their bound, undici closes the connection, but parses all that it has read, and makes an error for each line of it.
 */
import { createRequire } from 'node:module';
import type { Socket } from 'node:net';
import type { buildConnector, Pool } from 'undici';
import { isOutOfFiles } from '../../shared/runtime/open-files.ts';

/** Some thousand lines at most; most events of a stream are smaller, and a large body takes no longer because of it. */
const pieceBytesMax = 4 * 1024;

const headBytesMax = 16 * 1024;

export interface UndiciOptions {
  readonly connectMs: number;
  readonly keepAliveMs: number;
  /** A connection could not be opened, which was not the node's fault. */
  readonly onOutOfFiles: () => void;
}

export function undiciPool(origin: string, { connectMs, keepAliveMs, onOutOfFiles }: UndiciOptions): Pool {
  // Loaded on use: a gateway that speaks HTTP itself needs it not, and it is a tenth of its heap.
  const undici = createRequire(import.meta.url)('undici') as typeof import('undici');
  return new undici.Pool(origin, {
    connect: readingConnector(undici.buildConnector({ timeout: connectMs }), onOutOfFiles),
    pipelining: 1,
    keepAliveTimeout: keepAliveMs,
    // What a node hints in its own header is not taken for more.
    keepAliveMaxTimeout: keepAliveMs,
    maxHeaderSize: headBytesMax,
    // Waits are kept by the ticker, which knows what counts as progress.
    headersTimeout: 0,
    bodyTimeout: 0,
  });
}

function readingConnector(
  connect: buildConnector.connector,
  onOutOfFiles: () => void,
): buildConnector.connector {
  return (options, callback) =>
    connect(options, (...[error, socket]) => {
      if (error === null) callback(null, readInPieces(socket));
      else {
        if (isOutOfFiles(error)) onOutOfFiles();
        callback(error, null);
      }
    });
}

/** undici reads until nothing is left, also once it has destroyed the connection. */
function readInPieces<Connected extends Socket>(socket: Connected): Connected {
  const read = socket.read.bind(socket);
  socket.read = (size?: number) => {
    if (socket.destroyed) return null;
    return size === undefined && socket.readableLength > pieceBytesMax ? read(pieceBytesMax) : read(size);
  };
  return socket;
}
