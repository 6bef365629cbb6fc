/**
 * Opens the listener of the playground, which serves the playground's page and that page's API on a different origin from the
 * inference API. The folder `data-plane/playground` identifies visitors and limits what they may do. Their turns are then
 * handled like any other request. If the fleet does not admit visitors, the page says so.
 */
import { carriesKey } from '../../shared/decision/authenticate.ts';
import { Refusal } from '../../shared/decision/refusal.ts';
import { noVisitors } from '../../shared/decision/route.ts';
import { isOwnHost, securityHeaders } from '../../shared/runtime/browser-rules.ts';
import type { Connections } from '../../shared/runtime/connections.ts';
import { proxyList } from '../../shared/runtime/proxy-list.ts';
import { builtFolder, StaticFiles } from '../../shared/runtime/static-files.ts';
import type { Certificate } from '../../shared/runtime/tls.ts';
import { badHttp, sendRefusal, targetPath } from '../http/answers.ts';
import { type Listener, startListener } from '../http/api-listener.ts';
import type { Exchange } from '../http/exchange.ts';
import type { Gateway } from '../request/gateway.ts';
import { mintRequestId } from '../surfaces/common/request-id.ts';
import { CallBudget } from './call-budget.ts';
import { addressOf, isProxy } from './network.ts';
import { PlayApi } from './play-api.ts';

export interface PlaySettings {
  readonly port: number;
  /** Host names by which browsers may reach the playground, in addition to the loopback names. */
  readonly hosts: readonly string[];
  /** Addresses and CIDR ranges of proxies whose `X-Forwarded-For` header is trusted. */
  readonly trustedProxies: readonly string[];
  readonly consoleUrl?: string | undefined;
}

interface PlayParts {
  readonly gateway: Gateway;
  readonly gatewayToken: string;
  readonly bind: string;
  readonly certificate: Certificate | undefined;
  readonly connections: Connections;
}

/** Time in seconds after which a client is told to try again if too many calls arrive. */
const busySeconds = 2;

/** Maximum number of calls per second: without an API key, with a valid key, and for files, of which a page loads several. */
const perSecond = { visitors: 400, keys: 400, files: 1600 };

export function startPlay(settings: PlaySettings, parts: PlayParts): Promise<Listener> {
  const { gateway, gatewayToken, bind, certificate, connections } = parts;
  const files = new StaticFiles(builtFolder('play'));
  const proxies = proxyList(settings.trustedProxies);
  const hasRoom = callLimit(gateway, proxies, connections);
  const api = new PlayApi({
    ...{ gateway, gatewayToken, isTls: certificate !== undefined },
    proxies,
    consoleUrl: settings.consoleUrl?.replace(/\/+$/, ''),
  });
  const handler = async (exchange: Exchange): Promise<void> => {
    const { url, headers } = exchange.head;
    for (const [name, value] of Object.entries(securityHeaders)) exchange.answer.setField(name, value);
    const path = targetPath(url);
    // Check the call limit first, because this is cheaper than everything else.
    if (!hasRoom(exchange, path)) return;
    const bad = badHttp(exchange);
    if (bad !== undefined) {
      const requestId = refuse(exchange, bad, path);
      return gateway.observeEarly({ requestId, refusal: bad, target: { kind: 'shared' } });
    }
    if (!isOwnHost(headers.host, settings.hosts))
      return sendText(exchange, 421, 'this host name is not configured; add it with --play-host');
    if (path.startsWith('/api/')) {
      // Refuse calls of the API. The page is still served, because it says that visitors are not admitted.
      if (gateway.lookup.anonymousTier() === undefined) return void refuse(exchange, noVisitors(), path);
      return api.handle(exchange);
    }
    return sendFile(files, path, exchange);
  };
  return startListener({
    ...{ host: bind, port: settings.port, handler, certificate, connections },
    onRefusal: (refused) => gateway.observeEarly(refused),
    pace: { isExempt: (address) => isProxy(address, proxies), refusal: busy },
    name: 'play',
    flag: '--play-port',
  });
}

/** Creates a function that checks whether a call may be handled now. If not, the function refuses it and disconnects. */
function callLimit(
  gateway: Gateway,
  proxies: ReturnType<typeof proxyList>,
  connections: Connections,
): (exchange: Exchange, path: string) => boolean {
  const budgets = {
    visitors: new CallBudget(perSecond.visitors),
    keys: new CallBudget(perSecond.keys),
    files: new CallBudget(perSecond.files),
  };
  // Count a call with an invalid key as one without a key, so that it does not use up the calls of valid keys.
  const classifyCall = (path: string, authorization: string | undefined): keyof typeof budgets => {
    if (!path.startsWith('/api/')) return 'files';
    if (path === '/api/visitor' || authorization === undefined) return 'visitors';
    return carriesKey(gateway.lookup, authorization, gateway.now()) ? 'keys' : 'visitors';
  };
  return (exchange, path) => {
    const address = addressOf(exchange, proxies);
    const budget = budgets[classifyCall(path, exchange.head.headers.authorization)];
    if (budget.tryAcquire(address, performance.now())) return true;
    connections.refuseCall('play');
    exchange.makeLast();
    refuse(exchange, busy(), path);
    return false;
  };
}

/** Sends the refusal and returns the request id that was given to the request. */
function refuse(exchange: Exchange, refusal: Refusal, path: string): string {
  const requestId = mintRequestId();
  sendRefusal(exchange, { requestId, surface: 'openai' }, refusal, path);
  exchange.discardBody();
  return requestId;
}

function busy(): Refusal {
  return new Refusal(
    'playground is busy',
    `The playground is too busy. Try again in ${busySeconds} seconds.`,
    { retryAfterSeconds: busySeconds },
  );
}

function sendFile(files: StaticFiles, path: string, exchange: Exchange): void {
  const { method, headers } = exchange.head;
  const isRead = method === 'GET' || method === 'HEAD';
  const file = isRead ? files.find(path === '/' ? '/index.html' : path, headers) : undefined;
  if (file === undefined) {
    if (files.isBuilt) sendText(exchange, 404, 'not found');
    else sendText(exchange, 503, 'the page is not built; run: npm run build');
    return;
  }
  void exchange.answer.whole(file.status, undefined, Object.entries(file.headers).flat(), file.body);
  exchange.discardBody();
}

function sendText(exchange: Exchange, status: number, text: string): void {
  void exchange.answer.whole(status, 'text/plain; charset=utf-8', [], `${text}\n`);
  exchange.discardBody();
}
