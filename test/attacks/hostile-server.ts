/**
 * A server in three roles: an engine that lies about its usage, a control plane that never completes a snapshot, and an
 * address that nobody should contact, because only the attacker names it.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { hostileModel } from './fleet.ts';

export const claimedTokens = 2_000_000_000;

export class HostileServer {
  /** Requests to addresses that only the attacker named, each with its method, path and bearer token. */
  readonly asked: string[] = [];
  readonly #server: Server;
  #url = '';
  /** Redirects completions instead of answering them. */
  redirects = false;

  private constructor() {
    this.#server = createServer((request, response) => this.#answer(request, response));
  }

  static async start(): Promise<HostileServer> {
    const server = new HostileServer();
    await new Promise<void>((resolve) => server.#server.listen(0, '127.0.0.1', resolve));
    server.#url = `http://127.0.0.1:${(server.#server.address() as AddressInfo).port}`;
    return server;
  }

  get url(): string {
    return this.#url;
  }

  close(): Promise<void> {
    return new Promise((resolve) => {
      this.#server.close(() => resolve());
      this.#server.closeAllConnections();
    });
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const { method, url = '', headers } = request;
    request.resume();
    const [path = ''] = url.split('?');
    const known = answers[path];
    if (path === '/v1/chat/completions' && this.redirects)
      response.writeHead(307, { location: `${this.#url}/redirected`, 'content-length': '0' }).end();
    else if (known !== undefined)
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(known));
    else if (path.endsWith('/snapshot')) drip(response);
    else {
      this.asked.push(`${method} ${url} ${headers.authorization ?? 'without a bearer'}`);
      response.writeHead(404).end();
    }
  }
}

const lie = {
  ...{ id: 'chatcmpl-1', object: 'chat.completion', created: 1, model: hostileModel },
  choices: [{ index: 0, message: { role: 'assistant', content: 'ok' }, finish_reason: 'stop' }],
  usage: {
    prompt_tokens: claimedTokens / 2,
    completion_tokens: claimedTokens / 2,
    total_tokens: claimedTokens,
  },
};

const answers: Readonly<Record<string, object>> = {
  '/v1/models': { object: 'list', data: [{ id: hostileModel, max_model_len: 100_000 }] },
  '/v1/chat/completions': lie,
  '/health': {},
  '/version': { version: '0.6.0' },
  '/tokenize': { count: 3, tokens: [1, 2, 3], max_model_len: 100_000 },
};

/** Sends one byte per second without end. */
function drip(response: ServerResponse): void {
  response.writeHead(200, { 'x-headgate-sha256': 'a'.repeat(64) });
  const timer = setInterval(() => response.write('a'), 1000);
  response.once('close', () => clearInterval(timer));
}
