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
 * Closes a connection without losing its last response. If Node closed the socket while the client is sending, the kernel
 * would reset the connection. So half-close it and drain what the client still sends (RFC 9112, 9.6).
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
