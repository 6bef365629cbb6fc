/**
 * Loads a process's certificate and its additional certificate authorities. Both are read again when their files change, and
 * then apply to new connections. An unusable certificate ends a starting process, but a running one only logs it.
 */
import { X509Certificate } from 'node:crypto';
import * as nodeTls from 'node:tls';
import { createSecureContext, Server } from 'node:tls';
import type { Logger } from './logger.ts';
import { readNamed } from './named-file.ts';
import { type Renewable, WatchedFiles } from './watched-files.ts';

/** Paths of the PEM files with a listener's certificate and key. */
export interface TlsFiles {
  /** Path of the certificate chain, which starts with the listener's own certificate. */
  readonly cert: string;
  readonly key: string;
}

export interface Tls {
  readonly cert: Buffer;
  readonly key: Buffer;
}

export class Certificate implements Renewable {
  readonly #files: WatchedFiles<Tls>;
  readonly #servers: Server[] = [];

  /** Reads the files. Throws an error that names the file or the pair of files that cannot be used. */
  constructor(files: TlsFiles) {
    this.#files = new WatchedFiles([files.cert, files.key], () => readTls(files));
  }

  get tls(): Tls {
    return this.#files.value;
  }

  get validUntil(): string {
    return new Date(new X509Certificate(this.tls.cert).validTo).toISOString();
  }

  /** Applies all renewed certificates to a server. Does nothing if the server does not use TLS. */
  renewServer(server: object): void {
    if (server instanceof Server) this.#servers.push(server);
  }

  renew(logger: Logger, always: boolean): void {
    try {
      if (!this.#files.look(always)) return;
      for (const server of this.#servers) server.setSecureContext(this.tls);
      logger.info({ validUntil: this.validUntil }, 'certificate reloaded');
    } catch (error) {
      logger.error({ err: error }, 'the new certificate cannot be used; the previous one stays in use');
    }
  }
}

/** Functions in Node 22.19 and 24.5 that change the certificate authorities of a running process. */
interface DefaultAuthorities {
  getCACertificates?(which: 'default' | 'extra'): string[];
  setDefaultCACertificates?(certificates: readonly string[]): void;
}

/** Certificate authorities in the file NODE_EXTRA_CA_CERTS. Node itself reads it only at start, and ignores errors. */
export class ExtraAuthorities implements Renewable {
  readonly #files: WatchedFiles<readonly string[]>;
  readonly #node: DefaultAuthorities;
  /** Authorities that Node trusts in addition to those in the file. */
  #others: readonly string[] | undefined;

  constructor(path: string, node: DefaultAuthorities = nodeTls as DefaultAuthorities) {
    this.#node = node;
    let isStart = true;
    this.#files = new WatchedFiles([path], () => (isStart ? [] : readAuthorities(path)));
    isStart = false;
  }

  renew(logger: Logger, always: boolean): void {
    const { getCACertificates: get, setDefaultCACertificates: set } = this.#node;
    try {
      if (!this.#files.look(always)) return;
      if (get === undefined || set === undefined) {
        if (!always)
          logger.warn(
            'the authorities changed, but this version of Node reads them only when it starts; restart this process',
          );
        return;
      }
      const atStart = new Set(get('extra'));
      this.#others ??= get('default').filter((each) => !atStart.has(each));
      set([...this.#others, ...this.#files.value]);
      logger.info({ authorities: this.#files.value.length }, 'authorities reloaded');
    } catch (error) {
      logger.error({ err: error }, 'the new authorities cannot be used; the previous ones stay in use');
    }
  }
}

const certificatePattern = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

function readAuthorities(path: string): string[] {
  const found = readPem(path, 'authority').toString('utf8').match(certificatePattern) ?? [];
  if (found.length === 0) throw new Error(`${path} does not contain a CA certificate in PEM format`);
  for (const each of found) new X509Certificate(each);
  return found;
}

function readTls({ cert, key }: TlsFiles): Tls {
  const tls = { cert: readPem(cert, 'certificate'), key: readPem(key, 'key') };
  try {
    createSecureContext(tls);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new Error(`${cert} and ${key} are not a certificate and its key in PEM format: ${reason}`, {
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
