/** Opens listeners, and names the next step where one cannot be opened. */
import type { AddressInfo, Server } from 'node:net';
import { hostname } from 'node:os';

export interface ListenAddress {
  readonly host: string;
  /** 0 takes a free one. */
  readonly port: number;
}

/** The default address of health and metrics: they show more than a caller may know. */
export const loopback = '127.0.0.1';

/** How the address of a listener is chosen. */
export interface AddressFlags {
  readonly bind: string;
  readonly port: string;
}

/** Listens, and resolves to the address. Rejects with an error that names the option to change. */
export function listen(server: Server, address: ListenAddress, flags: AddressFlags): Promise<AddressInfo> {
  return new Promise((resolve, reject) => {
    const onError = (error: Error): void => reject(listenError(error, address, flags));
    server.once('error', onError);
    const { host, port } = address;
    server.listen({ host, port }, () => {
      server.off('error', onError);
      resolve(server.address() as AddressInfo);
    });
  });
}

/** What the system says of a text that is no address, or of an address that is not here. */
const noAddress = new Set(['EADDRNOTAVAIL', 'ENOTFOUND', 'EAI_AGAIN', 'EAI_FAIL', 'EAFNOSUPPORT', 'EINVAL']);

/** Turns the system's error into one with a next step; `flags` are named in it. */
export function listenError(error: unknown, address: ListenAddress, flags: AddressFlags): unknown {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  const where = `${address.host}:${address.port}`;
  if (code === 'EADDRINUSE')
    return new Error(
      `${where} is taken by another process; free it, or choose another port with ${flags.port}`,
      {
        cause: error,
      },
    );
  if (code === 'EACCES')
    return new Error(`no right to listen on ${where}; choose a port above 1023 with ${flags.port}`, {
      cause: error,
    });
  if (typeof code === 'string' && noAddress.has(code))
    return new Error(`${address.host} is not an address of this machine; choose one with ${flags.bind}`, {
      cause: error,
    });
  return error;
}

/** `http://host:port` as a client on this machine reaches it. */
export function listenerUrl(
  address: { readonly address: string; readonly port: number },
  tls = false,
): string {
  const host = address.address.includes(':') ? `[${address.address}]` : address.address;
  return `${tls ? 'https' : 'http'}://${host}:${address.port}`;
}

/**
 * The address by which others reach a listener at `url`. `advertised` is a base address, or a host with the scheme and port of the
 * listener; without it, this machine's name stands for all interfaces.
 */
export function advertisedUrl(url: string, advertised?: string): string {
  if (advertised?.includes('://')) return advertised;
  const { protocol, host, port } = new URL(url);
  const own = /^(?:0\.0\.0\.0|\[::\])(?=:|$)/.test(host) ? hostname() : undefined;
  const name = advertised ?? own;
  return name === undefined ? url : `${protocol}//${name}${port === '' ? '' : `:${port}`}`;
}
