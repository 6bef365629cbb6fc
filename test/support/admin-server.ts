/**
 * Fake control plane for tests of the command line. It listens on loopback over real HTTP and sends the answers that the test
 * chooses.
 */
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import { afterAll, beforeAll, beforeEach } from 'vitest';
import { portOf } from './listen.ts';
import { type CliOptions, type CliRun, runCli } from './run-cli.ts';

export const testToken = 'operator-token-of-the-test';

export interface SeenRequest {
  readonly method: string;
  /** Path of the request, without the API's prefix. */
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  readonly headers: IncomingHttpHeaders;
  readonly body: unknown;
}

/** `hang-up` means that the connection breaks before the answer. */
export type TestAnswer =
  | 'hang-up'
  | {
      readonly status?: number;
      readonly body?: unknown;
      readonly bytes?: Buffer;
      readonly headers?: Readonly<Record<string, string>>;
    };

export interface AdminServer {
  readonly url: string;
  readonly http: Server;
  readonly seen: SeenRequest[];
  /** Function that answers the requests. A test may replace it. */
  answer: (request: SeenRequest) => TestAnswer;
  close(): Promise<void>;
}

export function errorAnswer(status: number, type: string, more: object = {}): TestAnswer {
  const error = { type, code: 'CODE', message: `${type} it is`, status, path: '/admin/v1/x', ...more };
  return { status, body: { error } };
}

function newAdminServer(): AdminServer {
  const http = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const url = new URL(request.url ?? '/', 'http://x');
      const text = Buffer.concat(chunks).toString();
      const seen: SeenRequest = {
        method: request.method ?? '',
        path: url.pathname.replace(/^\/admin\/v1/, ''),
        query: Object.fromEntries(url.searchParams),
        headers: request.headers,
        body: text === '' ? undefined : JSON.parse(text),
      };
      server.seen.push(seen);
      const answer = server.answer(seen);
      if (answer === 'hang-up') {
        request.socket.destroy();
        return;
      }
      response.writeHead(answer.status ?? 200, { 'content-type': 'application/json', ...answer.headers });
      response.end(answer.bytes ?? JSON.stringify(answer.body ?? {}));
    });
  });
  const server: AdminServer = {
    url: '',
    http,
    seen: [],
    answer: () => ({ body: {} }),
    close: () =>
      new Promise((resolve) => {
        http.close(() => resolve());
        http.closeAllConnections();
      }),
  };
  return server;
}

async function listening(server: AdminServer): Promise<AdminServer> {
  const { http } = server;
  const port = await portOf(http);
  return Object.assign(server, { url: `http://127.0.0.1:${port}` });
}

export function startAdminServer(): Promise<AdminServer> {
  return listening(newAdminServer());
}

/** Shares one fake control plane among all tests of a file; each test starts with no recorded requests. */
export function useAdminServer(): AdminServer {
  const server = newAdminServer();
  beforeAll(async () => {
    await listening(server);
  });
  afterAll(() => server.close());
  beforeEach(() => {
    server.seen.length = 0;
  });
  return server;
}

/** Returns a function that runs a command line against the fake control plane. A string is split at its spaces. */
export function cliOf(server: AdminServer, of: CliOptions = {}) {
  return (words: string | readonly string[], options: CliOptions = {}): Promise<CliRun> => {
    const env = { HEADGATE_ADMIN: server.url, HEADGATE_TOKEN: testToken, ...options.env };
    return runCli(typeof words === 'string' ? words.split(' ') : words, { ...of, ...options, env });
  };
}
