/**
 * The listener of the playground: the page and its calls, for browsers. It is an origin of its own, apart from the API, and
 * there is nothing behind it where the fleet serves no visitors.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { isOwnHost, securityHeaders } from '../../shared/runtime/browser-rules.ts';
import type { Connections } from '../../shared/runtime/connections.ts';
import { builtFolder, StaticFiles } from '../../shared/runtime/static-files.ts';
import type { Certificate } from '../../shared/runtime/tls.ts';
import type { Gateway } from '../request/gateway.ts';
import { discardRest, pathOf } from '../request/http.ts';
import { type Listener, startListener } from '../server/server.ts';
import { proxyList } from './network.ts';
import { PlayApi } from './play-api.ts';

export interface PlaySettings {
  readonly port: number;
  /** Names by which browsers may ask for it, in addition to loopback. */
  readonly hosts: readonly string[];
  /** Addresses and CIDR ranges of proxies whose `X-Forwarded-For` is believed. */
  readonly trustedProxies: readonly string[];
  /** Address of the console, where visitors sign in. */
  readonly consoleUrl?: string | undefined;
}

interface PlayParts {
  readonly gateway: Gateway;
  readonly gatewayToken: string;
  readonly bind: string;
  readonly certificate: Certificate | undefined;
  readonly connections: Connections;
}

export function startPlay(settings: PlaySettings, parts: PlayParts): Promise<Listener> {
  const { gateway, gatewayToken, bind, certificate, connections } = parts;
  const files = new StaticFiles(builtFolder('play'));
  const api = new PlayApi({
    ...{ gateway, gatewayToken, isTls: certificate !== undefined },
    proxies: proxyList(settings.trustedProxies),
    consoleUrl: settings.consoleUrl?.replace(/\/+$/, ''),
  });
  const handler = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    for (const [name, value] of Object.entries(securityHeaders)) response.setHeader(name, value);
    if (!isOwnHost(request.headers.host, settings.hosts))
      return sendText(
        request,
        response,
        421,
        'this playground does not answer to this name; see --play-host',
      );
    if (gateway.lookup.anonymousTier() === undefined)
      return sendText(request, response, 404, 'visitors are not served here');
    const path = pathOf(request.url);
    if (path.startsWith('/api/')) return api.handle(request, response);
    return sendFile(files, path, request, response);
  };
  return startListener({
    ...{ host: bind, port: settings.port, handler, certificate, connections },
    onRefusal: (refused) => gateway.observeEarly(refused),
    name: 'play',
    flag: '--play-port',
  });
}

function sendFile(
  files: StaticFiles,
  path: string,
  request: IncomingMessage,
  response: ServerResponse,
): void {
  const isRead = request.method === 'GET' || request.method === 'HEAD';
  const file = isRead ? files.find(path === '/' ? '/index.html' : path, request.headers) : undefined;
  if (file === undefined) {
    if (files.isBuilt) sendText(request, response, 404, 'not found');
    else sendText(request, response, 503, 'the page was not built: npm run build');
    return;
  }
  response.writeHead(file.status, {
    ...file.headers,
    ...(file.body && { 'content-length': file.body.length }),
  });
  response.end(request.method === 'HEAD' ? undefined : file.body);
  discardRest(request);
}

function sendText(request: IncomingMessage, response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8' });
  response.end(`${text}\n`);
  discardRest(request);
}
