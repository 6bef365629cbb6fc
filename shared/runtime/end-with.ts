/** The end of a connection whose client is to read the reason. */
import type { Socket } from 'node:net';

/** A client has this long to read a refusal after which its connection ends. */
const lingerMs = 5000;

/** Sends the last bytes of a connection. Nobody reads the socket after a CONNECT, so its end has to be brought about. */
export function endWith(socket: Socket, bytes: string): void {
  socket.end(bytes);
  socket.resume();
  const timer = setTimeout(() => socket.destroy(), lingerMs);
  socket.once('close', () => clearTimeout(timer));
}
