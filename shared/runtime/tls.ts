/**
 * The certificate of a process's listeners: read at the start, and again on SIGHUP for the connections to come. One that
 * cannot be used ends a start with an error that names the files; at a renewal it changes nothing but the log.
 */
import { X509Certificate } from 'node:crypto';
import { createSecureContext, Server } from 'node:tls';
import type { Logger } from './logger.ts';
import { readNamed } from './named-file.ts';

/** Paths of PEM files. */
export interface TlsFiles {
  /** The chain, the listener's own certificate first. */
  readonly cert: string;
  readonly key: string;
}

export interface Tls {
  readonly cert: Buffer;
  readonly key: Buffer;
}

export class Certificate {
  readonly #files: TlsFiles;
  readonly #servers: Server[] = [];
  #tls: Tls;

  /** Throws an Error that names the file or the pair that cannot be used. */
  constructor(files: TlsFiles) {
    this.#files = files;
    this.#tls = readTls(files);
  }

  get tls(): Tls {
    return this.#tls;
  }

  get validUntil(): string {
    return new Date(new X509Certificate(this.#tls.cert).validTo).toISOString();
  }

  /** Passes every later certificate to a server. Without TLS it does nothing. */
  renewOn(server: object): void {
    if (server instanceof Server) this.#servers.push(server);
  }

  /** Reads the files again. Throws as the constructor does; the previous certificate stays in use then. */
  renew(): void {
    this.#tls = readTls(this.#files);
    for (const server of this.#servers) server.setSecureContext(this.#tls);
  }
}

/** Without a certificate the signal is ignored, because it may be sent to a whole fleet and must end no process. */
export function renewOnHangup(certificate: Certificate | undefined, logger: Logger): void {
  process.on('SIGHUP', () => {
    if (certificate === undefined) {
      logger.info('there is no certificate to read again');
      return;
    }
    try {
      certificate.renew();
      logger.info({ validUntil: certificate.validUntil }, 'certificate read again');
    } catch (error) {
      logger.error({ err: error }, 'the certificate before stays in use');
    }
  });
}

function readTls({ cert, key }: TlsFiles): Tls {
  const tls = { cert: readPem(cert, 'certificate'), key: readPem(key, 'key') };
  try {
    createSecureContext(tls);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new Error(`${cert} and ${key} are no certificate and its key, both PEM: ${reason}`, {
      cause: error,
    });
  }
  return tls;
}

const pemBytesMax = 1024 * 1024;

function readPem(path: string, what: string): Buffer {
  try {
    return readNamed(path, pemBytesMax);
  } catch (error) {
    const reason = error instanceof Error && 'code' in error ? error.code : String(error);
    throw new Error(`cannot read the TLS ${what} ${path}: ${reason}`, { cause: error });
  }
}
