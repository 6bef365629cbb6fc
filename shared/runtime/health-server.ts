/**
 * Serves health, readiness and metrics on a listener of their own, because all routes on a stack host need a key. No request
 * may end the process. `/livez` responds while the process lives. `/readyz` returns 200 while the process should receive
 * traffic (`?verbose` lists the checks, `?reads` considers read-only traffic). `/metrics` uses Prometheus's text format.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Registry } from 'prom-client';
import { printable } from '../../schemas/printable.ts';
import type { Connections } from './connections.ts';
import { createHttpServer, refuseAsText } from './http-server.ts';
import { type ListenAddress, listen, listenerUrl } from './listener.ts';
import type { Certificate } from './tls.ts';

export interface Check {
  readonly name: string;
  readonly ok: boolean;
  /** Detail that `?verbose` shows. It must not contain secrets. */
  readonly detail?: string;
  /** Whether the check also counts for `?reads`. The default is true. */
  readonly countsForReads?: boolean;
}

export interface HealthServer {
  readonly url: string;
  close(): Promise<void>;
}

export interface HealthOptions extends ListenAddress {
  readonly checks: () => readonly Check[] | Promise<readonly Check[]>;
  readonly metrics: Registry;
  readonly connections: Connections;
  readonly certificate?: Certificate | undefined;
  /** Handler for additional paths. Resolves to false if it does not know the path. */
  readonly route?: ((request: IncomingMessage, response: ServerResponse) => Promise<boolean>) | undefined;
}

const requestTimeoutMs = 10_000;
/** Maximum number of requests handled in one turn of the event loop. */
const handledMax = 32;

export async function startHealthServer(options: HealthOptions): Promise<HealthServer> {
  const { certificate, connections } = options;
  const limits = { headersTimeoutMs: requestTimeoutMs, requestTimeoutMs };
  const scrape = scraper(options);
  const server = createHttpServer(
    { name: 'metrics', connections, certificate, ...limits, handledMax, badHttp: refuseAsText },
    (request, response) => {
      response.on('error', () => response.destroy());
      answer(request, response, options, scrape).catch(() => {
        if (response.headersSent) response.destroy();
        else response.writeHead(500).end();
      });
    },
  );
  const address = await listen(server, options, { bind: '--metrics-bind', port: '--metrics-port' });
  return {
    url: listenerUrl(address, certificate !== undefined),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** Renders the metrics once for all requests in one turn of the event loop, because rendering takes some milliseconds. */
function scraper({ metrics }: HealthOptions): () => Promise<string> {
  let text: Promise<string> | undefined;
  const written = async (): Promise<string> => {
    // Double the backslashes in label values, as the text format requires. Values may contain names chosen by others.
    const texts = await Promise.all(
      metrics.getMetricsAsArray().map(({ name }) => writtenAlone(metrics, name)),
    );
    return printable(`${texts.join('\n\n')}\n`, '\n', '\\\\');
  };
  return () => {
    if (text === undefined) {
      text = written();
      setImmediate(() => {
        text = undefined;
      });
    }
    return text;
  };
}

/** Renders one metric separately. If it fails, for example for lack of a file descriptor, the others still appear. */
async function writtenAlone(metrics: Registry, name: string): Promise<string> {
  try {
    return await metrics.getSingleMetricAsString(name);
  } catch {
    return `# ${name} cannot be collected now`;
  }
}

/** Responds to a request, whose target may not be a valid URL. Rejects if a check or a metric throws. */
async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  options: HealthOptions,
  scrape: () => Promise<string>,
): Promise<void> {
  const [path, query = ''] = (request.url ?? '').split('?', 2);
  const text = { 'content-type': 'text/plain; charset=utf-8' };
  if (path === '/livez') {
    response.writeHead(200, text).end('ok\n');
  } else if (path === '/readyz') {
    const checks = await options.checks();
    const isForReads = hasWord(query, 'reads');
    const ready = checks.every(({ ok, countsForReads = true }) => ok || (isForReads && !countsForReads));
    const lines = checks.map(
      ({ name, ok, detail }) => `[${ok ? '+' : '-'}]${name}${detail ? ` ${detail}` : ''}`,
    );
    const body = hasWord(query, 'verbose') || !ready ? `${lines.join('\n')}\n` : '';
    response.writeHead(ready ? 200 : 503, text).end(`${body}${ready ? 'ok' : 'not ready'}\n`);
  } else if (path === '/metrics') {
    const body = await scrape();
    response.writeHead(200, { 'content-type': options.metrics.contentType }).end(body);
  } else if (!(await options.route?.(request, response))) {
    response.writeHead(404, text).end('not found; try /livez, /readyz?verbose or /metrics\n');
  }
}

function hasWord(query: string, word: string): boolean {
  return query.split('&').some((part) => part.split('=', 1)[0] === word);
}
