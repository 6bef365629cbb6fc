/** Names the next step where a listener cannot be opened. */

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
  if (code === 'EADDRNOTAVAIL')
    return new Error(`${address.host} is not an address of this machine; see ${flags.bind}`, {
      cause: error,
    });
  return error;
}

/** `http://host:port` as a client on this machine reaches it. */
export function urlOf(address: { readonly address: string; readonly port: number }, tls = false): string {
  const host = address.address.includes(':') ? `[${address.address}]` : address.address;
  return `${tls ? 'https' : 'http'}://${host}:${address.port}`;
}
