/**
 * The certificate of a process's listeners, and its additional certificate authorities. Both are read again when their files
 * change, and then apply to new connections. An unusable certificate ends the process at start; at a renewal it is only
 * logged.
 */
import { X509Certificate } from 'node:crypto';
import * as nodeTls from 'node:tls';
import { createSecureContext, Server } from 'node:tls';
import type { Logger } from './logger.ts';
import { readNamed } from './named-file.ts';
import { type Renewable, WatchedFiles } from './watched-files.ts';

/** Paths of PEM files. */
export interface TlsFiles {
  /** Certificate chain, beginning with the listener's own certificate. */
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

  /** Throws an error that names the unusable file or pair of files. */
  constructor(files: TlsFiles) {
    this.#files = new WatchedFiles([files.cert, files.key], () => readTls(files));
  }

  get tls(): Tls {
    return this.#files.value;
  }

  get validUntil(): string {
    return new Date(new X509Certificate(this.tls.cert).validTo).toISOString();
  }

  /** Passes all later certificates to a server. Does nothing for a server without TLS. */
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

/** Functions of Node 22.19 and 24.5 that change the authorities of a running process. */
interface DefaultAuthorities {
  getCACertificates?(which: 'default' | 'extra'): string[];
  setDefaultCACertificates?(certificates: readonly string[]): void;
}

/** Authorities from the file NODE_EXTRA_CA_CERTS. Node reads it only at start, and continues without it if that fails. */
export class ExtraAuthorities implements Renewable {
  readonly #files: WatchedFiles<readonly string[]>;
  readonly #node: DefaultAuthorities;
  /** Authorities that Node trusts without the file. */
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
