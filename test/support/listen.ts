import { once } from 'node:events';
import type { AddressInfo, Server } from 'node:net';

/** Lets the server listen on this machine, and gives its port. */
export async function portOf(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

/** The same, and its address. */
export const urlOf = async (server: Server): Promise<string> => `http://127.0.0.1:${await portOf(server)}`;
