/** Opens listeners. If one cannot be opened, the error says what to do. */
import type { AddressInfo, Server } from 'node:net';
import { hostname } from 'node:os';

export interface ListenAddress {
  readonly host: string;
  /** Port number. 0 lets the system choose a free port. */
  readonly port: number;
}

/** Default address for health and metrics, because they reveal more than callers may know. */
export const loopback = '127.0.0.1';

/** Names of the command-line options that set a listener's address. */
export interface AddressFlags {
  readonly bind: string;
  readonly port: string;
}

/** Starts to listen and resolves to the address. Rejects with an error that names the option to change. */
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

/** System error codes that mean an invalid address, or one that this machine does not have. */
const noAddress = new Set(['EADDRNOTAVAIL', 'ENOTFOUND', 'EAI_AGAIN', 'EAI_FAIL', 'EAFNOSUPPORT', 'EINVAL']);

/** Converts a system error to one that says what to do and mentions the option in `flags`. */
export function listenError(error: unknown, address: ListenAddress, flags: AddressFlags): unknown {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  const where = `${address.host}:${address.port}`;
  if (code === 'EADDRINUSE')
    return new Error(`another process uses ${where}; stop it, or choose another port with ${flags.port}`, {
      cause: error,
    });
  if (code === 'EACCES')
    return new Error(`this process may not listen on ${where}; choose a port above 1023 with ${flags.port}`, {
      cause: error,
    });
  if (typeof code === 'string' && noAddress.has(code))
    return new Error(`${address.host} is not an address of this machine; choose one with ${flags.bind}`, {
      cause: error,
    });
  return error;
}

/** Returns the URL `http://host:port` at which a client on this machine reaches the listener. */
export function listenerUrl(
  address: { readonly address: string; readonly port: number },
  tls = false,
): string {
  const host = address.address.includes(':') ? `[${address.address}]` : address.address;
  return `${tls ? 'https' : 'http'}://${host}:${address.port}`;
}

/**
 * Returns the URL at which other machines reach a listener at `url`. `advertised` is a base URL, or a host to be combined
 * with the listener's scheme and port. Without it, this machine's host name replaces a wildcard address.
 */
export function advertisedUrl(url: string, advertised?: string): string {
  if (advertised?.includes('://')) return advertised;
  const { protocol, host, port } = new URL(url);
  const own = /^(?:0\.0\.0\.0|\[::\])(?=:|$)/.test(host) ? hostname() : undefined;
  const name = advertised ?? own;
  return name === undefined ? url : `${protocol}//${name}${port === '' ? '' : `:${port}`}`;
}
