/** Closes a connection so that its client can still read the last response. */
import type { Socket } from 'node:net';

/** Time for a client to read the last bytes of its connection, in ms. */
const lingerMs = 5000;

/** Sends a connection's last bytes and closes it. After a CONNECT nothing reads the socket, so drain it here. */
export function writeAndClose(socket: Socket, bytes: string): void {
  socket.end(bytes);
  linger(socket);
}

/**
 * Makes a connection close without losing its last response. Node's server closes the socket after it. If the client is still
 * sending, the kernel then resets the connection and the client loses the response. So this half-closes the socket and drains
 * what the client still sends (RFC 9112, 9.6).
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
