/**
 * Opens connections to nodes, and makes undici read them in small pieces. Where the head or the trailers of an answer exceed
 * their bound, undici closes the connection, but parses all that it has read, and makes an error for each line of it.
 */
import type { Socket } from 'node:net';
import { buildConnector } from 'undici';
import { isOutOfFiles } from '../../shared/runtime/open-files.ts';

/** Some thousand lines at most; most events of a stream are smaller, and a large body takes no longer because of it. */
const pieceBytesMax = 4 * 1024;

/** `timeoutMs`: for a connection to open. `onOutOfFiles`: one could not be opened, which was not the node's fault. */
export function nodeConnector(timeoutMs: number, onOutOfFiles: () => void): buildConnector.connector {
  const connect = buildConnector({ timeout: timeoutMs });
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
