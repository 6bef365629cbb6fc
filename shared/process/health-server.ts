/**
 * Health, readiness and metrics on a listener of their own, because on a stack host every route needs a key.
 * `/livez` answers while the process lives, `/readyz` while it should get traffic (`?verbose` lists the checks), `/metrics`
 * in Prometheus's text format.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { Registry } from 'prom-client';
import { type ListenAddress, listenError, urlOf } from './listener.ts';
import type { Certificate } from './tls.ts';

export interface Check {
  readonly name: string;
  readonly ok: boolean;
  /** Said in `?verbose`; no secrets. */
  readonly detail?: string;
}

export interface HealthServer {
  readonly url: string;
  close(): Promise<void>;
}

export interface HealthOptions extends ListenAddress {
  readonly checks: () => readonly Check[];
  readonly metrics: Registry;
  readonly certificate?: Certificate | undefined;
  /** Called before each scrape to bring gauges up to date. */
  readonly beforeScrape?: () => void;
}

export async function startHealthServer(options: HealthOptions): Promise<HealthServer> {
  const { certificate } = options;
  const handle = (request: IncomingMessage, response: ServerResponse): void => {
    const url = new URL(request.url ?? '/', 'http://health');
    answer(url, response, options).catch(() => response.writeHead(500).end());
  };
  const server = certificate ? createTlsServer(certificate.tls, handle) : createServer(handle);
  certificate?.renewOn(server);
  server.requestTimeout = 10_000;
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => reject(listenError(error, options, '--metrics-port')));
    server.listen(options.port, options.host, resolve);
  });
  return {
    url: urlOf(server.address() as AddressInfo, certificate !== undefined),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function answer(url: URL, response: ServerResponse, options: HealthOptions): Promise<void> {
  const text = { 'content-type': 'text/plain; charset=utf-8' };
  if (url.pathname === '/livez') {
    response.writeHead(200, text).end('ok\n');
  } else if (url.pathname === '/readyz') {
    const checks = options.checks();
    const ready = checks.every((check) => check.ok);
    const lines = checks.map(
      ({ name, ok, detail }) => `[${ok ? '+' : '-'}]${name}${detail ? ` ${detail}` : ''}`,
    );
    const body = url.searchParams.has('verbose') || !ready ? `${lines.join('\n')}\n` : '';
    response.writeHead(ready ? 200 : 503, text).end(`${body}${ready ? 'ok' : 'not ready'}\n`);
  } else if (url.pathname === '/metrics') {
    options.beforeScrape?.();
    const body = await options.metrics.metrics();
    response.writeHead(200, { 'content-type': options.metrics.contentType }).end(body);
  } else {
    response.writeHead(404, text).end('not found; try /livez, /readyz?verbose or /metrics\n');
  }
}
