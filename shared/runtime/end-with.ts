/** The end of a connection whose client is to read what was written last. */
import type { Socket } from 'node:net';

/** A client has this long to read what its connection ends with. */
const lingerMs = 5000;

/** Sends the last bytes of a connection. Nobody reads the socket after a CONNECT, so its end has to be brought about. */
export function writeAndClose(socket: Socket, bytes: string): void {
  socket.end(bytes);
  linger(socket);
}

/**
 * Node's server closes behind its last answer. What the client still sends then makes the system reset the connection, and the client
 * lose the answer: so only the own side ends, and the rest is read and dropped (RFC 9112, 9.6).
 */
export function lingerAtEnd(socket: Socket): void {
  socket.destroySoon = () => {
    if (socket.writableEnded || socket.destroyed) return;
    socket.end();
    linger(socket);
  };
}

function linger(socket: Socket): void {
  socket.resume();
  const timer = setTimeout(() => socket.destroy(), lingerMs);
  socket.once('close', () => clearTimeout(timer));
}
