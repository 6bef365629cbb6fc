/**
 * A server that does nothing but shape and forward, over real sockets, for tests of forwarding.
 * It records how every exchange ended, and closes everything that it opened.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { sendRefusal } from '../../data-plane/request/answer.ts';
import { BodyBudget, readBody } from '../../data-plane/request/body.ts';
import { ClientResponse } from '../../data-plane/request/client-response.ts';
import {
  defaultForwardSettings,
  type ForwardOutcome,
  type ForwardSettings,
  forward,
} from '../../data-plane/request/forward.ts';
import { Refusal } from '../../data-plane/request/refusal.ts';
import { unavailable } from '../../data-plane/request/route.ts';
import { shapeChat, shapeEmbeddings } from '../../data-plane/request/shape.ts';
import { NodeLoad } from '../../data-plane/upstream/load.ts';
import { NodePools } from '../../data-plane/upstream/node-pools.ts';
import type { Dialect } from '../../schemas/names.ts';
import type { Route } from '../../shared/snapshot/lookup.ts';

export type Ended =
  | ForwardOutcome
  | { readonly kind: 'refused'; readonly type: string; readonly message: string; readonly reason: string }
  | { readonly kind: 'fault'; readonly error: unknown };

export interface ForwardServerOptions {
  readonly candidates: readonly Route[];
  readonly settings?: Partial<ForwardSettings>;
  readonly connectMs?: number;
  readonly stallMs?: number;
  readonly credential?: (name: string) => string | undefined;
  readonly random?: () => number;
  readonly maxTokens?: number;
}

export interface ForwardServer {
  /** Base address, without `/v1`. */
  readonly url: string;
  readonly port: number;
  readonly load: NodeLoad;
  readonly pools: NodePools;
  /** How the exchanges ended, in the order of their ends; each is given once. */
  next(): Promise<Ended>;
  /** Connections of clients open now. */
  connections(): Promise<number>;
  close(): Promise<void>;
}

export function routeTo(url: string, more: Partial<Route> = {}): Route {
  const dialect: Dialect = 'vllm';
  return { node: 'n1', served: 'm', url, dialect, credential: null, windowTokens: null, ...more };
}

export async function startForwardServer(options: ForwardServerOptions): Promise<ForwardServer> {
  const { credential = () => undefined, connectMs, stallMs } = options;
  const pools = new NodePools({ credential, tickMs: 10, ...(connectMs === undefined ? {} : { connectMs }) });
  const load = new NodeLoad(options.random === undefined ? {} : { random: options.random });
  const settings = { ...defaultForwardSettings, ...options.settings };
  const ended: Ended[] = [];
  const waiting: ((value: Ended) => void)[] = [];
  const record = (value: Ended): void => {
    const waiter = waiting.shift();
    if (waiter) waiter(value);
    else ended.push(value);
  };
  const budget = new BodyBudget();
  const server = createServer(async (request, response) => {
    const ids = { requestId: 'req_test', anthropicPath: false };
    try {
      const body = await readBody(request, budget);
      body.release();
      const type = request.headers['content-type'];
      const shaped =
        request.url === '/v1/embeddings' ? shapeEmbeddings(body.bytes, type) : shapeChat(body.bytes, type);
      record(
        await forward({
          request: shaped,
          candidates: options.candidates,
          maxTokensFor: () => options.maxTokens ?? 1000,
          client: new ClientResponse(response, {
            headers: { 'x-request-id': 'req_test' },
            ...(stallMs === undefined ? {} : { stallMs }),
          }),
          ids: { responseId: 'chatcmpl-test', createdSeconds: 1_800_000_000 },
          settings,
          pools,
          load,
          onNodeFailure: unavailable,
        }),
      );
    } catch (error) {
      if (!(error instanceof Refusal)) {
        response.destroy();
        record({ kind: 'fault', error });
        return;
      }
      sendRefusal(response, ids, error, request.url ?? '/');
      record({ kind: 'refused', type: error.type, message: error.message, reason: error.reason });
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    load,
    pools,
    next: () => {
      const first = ended.shift();
      return first ? Promise.resolve(first) : new Promise((resolve) => waiting.push(resolve));
    },
    connections: () => new Promise((resolve) => server.getConnections((_error, count) => resolve(count))),
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await pools.close();
    },
  };
}
