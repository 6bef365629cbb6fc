import { once } from 'node:events';
import type { AddressInfo, Server } from 'node:net';

/** Starts the server on a free loopback port and returns the port. */
export async function portOf(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

/** Starts the server on a free loopback port and returns its URL. */
export const urlOf = async (server: Server): Promise<string> => `http://127.0.0.1:${await portOf(server)}`;
