/** Tests that changed TLS files are applied automatically, and that unusable files cause only one log line. */
import { once } from 'node:events';
import {
  copyFileSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
} from 'node:fs';
import type { AddressInfo, Server } from 'node:net';
import { join } from 'node:path';
import { connect, createServer, type TLSSocket } from 'node:tls';
import { Registry } from 'prom-client';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { folderOfTest } from '../../test/support/folders.ts';
import { createDial } from '../log/kafka/client.ts';
import { KafkaFiles } from '../log/kafka/files.ts';
import { Connections } from './connections.ts';
import { createHttpServer, refuseAsText } from './http-server.ts';
import type { Logger } from './logger.ts';
import { Certificate } from './tls.ts';
import { keepRenewed } from './watched-files.ts';

const fixture = (name: string): string =>
  new URL(`../../test/fixtures/tls/${name}`, import.meta.url).pathname;
const ca = readFileSync(fixture('ca.pem'));
let dir: string;
let files: { readonly cert: string; readonly key: string };
let lines: string[];
const closers: (() => void)[] = [];

const note = (fields: object, text?: string): void => {
  const { err } = fields as { err?: Error };
  lines.push(`${text ?? String(fields)}${err === undefined ? '' : `: ${err.message}`}`);
};
const logger = { info: note, warn: note, error: note } as unknown as Logger;

beforeEach(() => {
  dir = folderOfTest('files');
  files = { cert: join(dir, 'tls.crt'), key: join(dir, 'tls.key') };
  lines = [];
});
afterEach(() => {
  vi.useRealTimers();
  for (const close of closers.splice(0)) close();
});

function copy(name: 'first' | 'second', to = dir): void {
  copyFileSync(fixture(`${name}.pem`), join(to, 'tls.crt'));
  copyFileSync(fixture(`${name}.key`), join(to, 'tls.key'));
}

async function listening(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1');
  closers.push(() => server.close());
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

async function serve(certificate: Certificate): Promise<number> {
  const connections = new Connections({ registry: new Registry(), logger });
  const limits = { headersTimeoutMs: 5000, requestTimeoutMs: 5000 };
  const options = { name: 'api', connections, certificate, badHttp: refuseAsText, ...limits } as const;
  return listening(createHttpServer(options, (_request, response) => response.end()));
}

/** Returns the name in the certificate that a new connection receives. */
async function shown(port: number): Promise<string> {
  const socket: TLSSocket = connect({ host: '127.0.0.1', port, ca });
  await once(socket, 'secureConnect');
  const { CN } = socket.getPeerCertificate().subject;
  socket.destroy();
  return String(CN).split('.')[0] ?? '';
}

const isRead = 'certificate reloaded';
const isKept = expect.stringMatching(/^the new certificate cannot be used; the previous one stays in use: /);

test.each<[string, () => void]>([
  ['overwritten', () => copy('second')],
  [
    'replaced by a rename',
    () => {
      mkdirSync(join(dir, 'new'));
      copy('second', join(dir, 'new'));
      for (const name of ['tls.crt', 'tls.key']) renameSync(join(dir, 'new', name), join(dir, name));
    },
  ],
])('a certificate that was %s is used for new connections', async (_, change) => {
  copy('first');
  const certificate = new Certificate(files);
  const ports = [await serve(certificate), await serve(certificate)];
  certificate.renew(logger, false);
  expect([await Promise.all(ports.map(shown)), lines]).toEqual([['first', 'first'], []]);
  change();
  certificate.renew(logger, false);
  certificate.renew(logger, false);
  expect([await Promise.all(ports.map(shown)), lines]).toEqual([['second', 'second'], [isRead]]);
});

test('a Secret mounted by Kubernetes is swapped as a whole, through a link above the files', async () => {
  const mounted = (name: 'first' | 'second'): void => {
    mkdirSync(join(dir, name));
    copy(name, join(dir, name));
    symlinkSync(name, join(dir, '..data_tmp'));
    renameSync(join(dir, '..data_tmp'), join(dir, '..data'));
  };
  mounted('first');
  for (const name of ['tls.crt', 'tls.key']) symlinkSync(`..data/${name}`, join(dir, name));
  const certificate = new Certificate(files);
  const port = await serve(certificate);
  expect(await shown(port)).toBe('first');
  mounted('second');
  rmSync(join(dir, 'first'), { recursive: true });
  certificate.renew(logger, false);
  expect([await shown(port), lines]).toEqual(['second', [isRead]]);
});

test.each<[string, () => void]>([
  ['half written', () => truncateSync(files.cert, 100)],
  ['for another key', () => copyFileSync(fixture('second.pem'), files.cert)],
  ['gone', () => rmSync(files.key)],
  ['a folder', () => [rmSync(files.key), mkdirSync(files.key)]],
])('a certificate that is %s is logged once, and used when it is complete', async (_, change) => {
  copy('first');
  const certificate = new Certificate(files);
  const port = await serve(certificate);
  change();
  for (let looks = 0; looks < 3; looks++) certificate.renew(logger, false);
  expect([await shown(port), lines]).toEqual(['first', [isKept]]);
  expect(lines[0]).not.toContain('BEGIN');
  rmSync(files.key, { recursive: true, force: true });
  copy('second');
  certificate.renew(logger, false);
  expect([await shown(port), lines.slice(1)]).toEqual(['second', [isRead]]);
});

test('a process checks its files each minute, and reads them on SIGHUP even if unchanged', () => {
  vi.useFakeTimers();
  copy('first');
  const before = process.listeners('SIGHUP');
  keepRenewed([new Certificate(files)], logger);
  const own = process.listeners('SIGHUP').filter((each) => !before.includes(each));
  closers.push(() => {
    for (const each of own) process.off('SIGHUP', each);
  });
  vi.advanceTimersByTime(120_000);
  expect(lines).toEqual([]);
  for (const each of own) each('SIGHUP');
  expect(lines).toEqual([isRead]);
  copy('second');
  vi.advanceTimersByTime(60_000);
  expect(lines).toEqual([isRead, isRead]);
  vi.advanceTimersByTime(600_000);
  expect(lines).toHaveLength(2);
});

test('a broker connection uses the current client certificate, or else the previous one', async () => {
  const seen: string[] = [];
  const server = createServer(
    {
      cert: readFileSync(fixture('first.pem')),
      key: readFileSync(fixture('first.key')),
      ca,
      requestCert: true,
    },
    (socket) => {
      seen.push(String(socket.getPeerCertificate().subject?.CN).split('.')[0] ?? '');
      socket.on('error', () => undefined).destroy();
    },
  );
  const port = await listening(server);
  copy('first');
  const kafka = new KafkaFiles({
    HEADGATE_KAFKA_TLS_CA: fixture('ca.pem'),
    HEADGATE_KAFKA_TLS_CERT: files.cert,
    HEADGATE_KAFKA_TLS_KEY: files.key,
  });
  const dial = createDial({}, () => kafka.current());
  const dialled = async () => {
    const count = seen.length;
    await dial({ host: 'localhost', port }).catch(() => undefined);
    return [seen.slice(count), kafka.fault];
  };
  expect(await dialled()).toEqual([['first'], undefined]);
  copy('second');
  expect(await dialled()).toEqual([['second'], undefined]);
  truncateSync(files.key, 10);
  expect(await dialled()).toEqual([['second'], 'the file of HEADGATE_KAFKA_TLS_KEY is not PEM']);
  copy('first');
  expect(await dialled()).toEqual([['first'], undefined]);
});
