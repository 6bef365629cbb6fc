/** Closes a connection so that its client can still read the last response. */
import type { Socket } from 'node:net';

/** Time in ms that a client has to read the last bytes of a response. */
const lingerMs = 5000;

/** Sends the last bytes on a connection and closes it. Drains the socket, because after a CONNECT nothing else reads it. */
export function writeAndClose(socket: Socket, bytes: string): void {
  socket.end(bytes);
  linger(socket);
}

/**
 * Closes a connection without losing its last response. If Node closed the socket while the client is still sending, the
 * kernel would reset the connection. So this half-closes the socket and drains what the client sends (RFC 9112, 9.6).
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
