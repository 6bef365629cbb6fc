/**
 * A server for tests of forwarding. It only checks the form of requests and forwards them over real sockets. It records how
 * every exchange ended, and closes everything that it opened.
 */
import { type Agent, type ClientRequest, request as httpRequest } from 'node:http';
import type { Socket } from 'node:net';
import { BodyWorker } from '../../data-plane/body-worker/body-worker.ts';
import { sendRefusal } from '../../data-plane/http/answers.ts';
import { readBody } from '../../data-plane/http/body.ts';
import type { Exchange } from '../../data-plane/http/exchange.ts';
import {
  defaultForwardSettings,
  type ForwardOutcome,
  type ForwardSettings,
  forward,
} from '../../data-plane/nodes/forward.ts';
import { NodeLoad } from '../../data-plane/nodes/load.ts';
import { NodePools } from '../../data-plane/nodes/node-pools.ts';
import { shapeOperation, type ValidRequest } from '../../data-plane/surfaces/surfaces.ts';
import type { Dialect } from '../../schemas/names.ts';
import { Refusal } from '../../shared/decision/refusal.ts';
import { nodeFailed } from '../../shared/decision/route.ts';
import { BodyBudget } from '../../shared/runtime/byte-budget.ts';
import { waits } from '../../shared/runtime/waits.ts';
import type { Route } from '../../shared/snapshot/lookup.ts';
import { serveExchanges } from './exchange-server.ts';

export type Ending =
  | ForwardOutcome
  | { readonly kind: 'refused'; readonly type: string; readonly message: string; readonly reason: string }
  | { readonly kind: 'fault'; readonly error: unknown };

export interface ForwardServerOptions {
  readonly candidates: readonly Route[] | ((asked: ValidRequest['asked']) => readonly Route[]);
  readonly settings?: Partial<ForwardSettings>;
  readonly connectMs?: number;
  readonly stallMs?: number;
  readonly credential?: (name: string) => string | undefined;
  readonly random?: () => number;
  /** Monotonic clock for the load of nodes, in ms. */
  readonly now?: () => number;
  readonly maxTokens?: number;
  /** Awaited between reading a request and forwarding it. */
  readonly beforeForward?: (exchange: Exchange) => Promise<unknown>;
}

export interface ForwardServer {
  /** Base URL, without `/v1`. */
  readonly url: string;
  readonly port: number;
  readonly load: NodeLoad;
  readonly pools: NodePools;
  /** Unusual forms of answers that were accepted as a guess or refused, each with the name of its node. */
  readonly oddForms: readonly string[];
  /** Returns the outcome of the next exchange that ends, in the order in which exchanges end. */
  next(): Promise<Ending>;
  /** Outcomes of exchanges by the `x-test` header of their requests. */
  readonly endedByTest: ReadonlyMap<string, Ending>;
  /** Server-side sockets of the client connections that are currently open. */
  readonly sockets: ReadonlySet<Socket>;
  close(): Promise<void>;
}

export function routeTo(url: string, more: Partial<Route> = {}): Route {
  const dialect: Dialect = 'vllm';
  return {
    node: 'n1',
    served: 'm',
    url,
    dialect,
    credential: null,
    windowTokens: null,
    takesImages: false,
    reranks: false,
    ...more,
  };
}

const kinds = {
  '/v1/embeddings': 'embeddings',
  '/v1/messages': 'messages',
  '/v1/responses': 'responses',
} as const;

function shape(path: string, bytes: Buffer, contentType: string | undefined): ValidRequest {
  const kind = kinds[path as keyof typeof kinds] ?? 'chat';
  return shapeOperation({ kind }, bytes, { contentType, version: undefined });
}

/** Starts the server. The `x-tenant` header of a request names its tenant. */
export async function startForwardServer(options: ForwardServerOptions): Promise<ForwardServer> {
  const { candidates, credential = () => undefined, connectMs, stallMs = waits.clientReads.ms } = options;
  const pools = new NodePools({
    credential,
    tickMs: 10,
    ...(connectMs === undefined ? {} : { connectMs }),
  });
  const { random, now } = options;
  const load = new NodeLoad({ ...(random && { random }), ...(now && { now }) });
  const ended: Ending[] = [];
  const oddForms: string[] = [];
  const waiting: ((value: Ending) => void)[] = [];
  const endedByTest = new Map<string, Ending>();
  const record = (value: Ending, test: unknown): void => {
    if (typeof test === 'string') endedByTest.set(test, value);
    const waiter = waiting.shift();
    if (waiter) waiter(value);
    else ended.push(value);
  };
  const budget = new BodyBudget();
  const forwarding = { ...defaultForwardSettings, ...options.settings };
  const means = { forwarding, pools, load, bodyWorker: new BodyWorker(), streams: { open: 0 } };
  const handler = async (exchange: Exchange): Promise<void> => {
    const { headers, url = '/' } = exchange.head;
    const test = headers['x-test'];
    const tenant = headers['x-tenant'];
    const ids = { requestId: 'req_test', surface: 'openai' } as const;
    try {
      const body = await readBody(exchange, budget.of('test'), { bytesMax: 32 * 1024 * 1024 });
      const { asked, form } = shape(url, body.bytes.whole(), headers['content-type']);
      if (form === undefined) throw new Error('has no answer');
      body.release();
      await options.beforeForward?.(exchange);
      record(
        await forward(means, {
          asked,
          form,
          body: { discard: () => undefined, release: () => undefined },
          candidates: typeof candidates === 'function' ? candidates(asked) : candidates,
          tier: 'Starter',
          maxTokensFor: () => options.maxTokens ?? 1000,
          client: exchange,
          fields: ['x-request-id', 'req_test'],
          ids: { unique: 'test', createdSeconds: 1_800_000_000 },
          at: { sent: undefined, begun: undefined },
          choose: (left) => load.choose(left),
          owner: typeof tenant === 'string' ? tenant : 'test',
          onNodeFailure: nodeFailed,
          onOddForm: (node, oddForm) => oddForms.push(`${node}: ${oddForm}`),
        }),
        test,
      );
    } catch (error) {
      if (!(error instanceof Refusal)) {
        exchange.abort();
        record({ kind: 'fault', error }, test);
        return;
      }
      sendRefusal(exchange, ids, error, url);
      const { type, message, reason } = error;
      record({ kind: 'refused', type, message, reason }, test);
    }
  };
  const server = await serveExchanges(handler, { timeouts: { stallTimeoutMs: stallMs } });
  const { url, port, sockets } = server;
  return {
    ...{ url, port, sockets },
    load,
    pools,
    oddForms,
    next: () => {
      const first = ended.shift();
      return first ? Promise.resolve(first) : new Promise((resolve) => waiting.push(resolve));
    },
    endedByTest,
    close: async () => {
      server.destroy();
      await pools.close();
    },
  };
}

export interface Answer {
  /** HTTP status, or 0 if no answer came. */
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  /** True if the body ended as its framing announced. */
  readonly clean: boolean;
}

export interface PendingRequest {
  readonly request: ClientRequest;
  readonly answer: Promise<Answer>;
  /** Resolves with everything received so far, once it contains `text`. */
  until(text: string): Promise<string>;
}

/** Posts JSON over a new socket or a socket of the agent. A truncated answer counts as an answer, not as an error. */
export function post(
  url: string,
  body: object,
  more: { readonly agent?: Agent; readonly headers?: Record<string, string> } = {},
): PendingRequest {
  let text = '';
  let status = 0;
  let headers: Answer['headers'] = {};
  const watchers = new Set<() => void>();
  const bytes = Buffer.from(JSON.stringify(body));
  const request = httpRequest(url, {
    method: 'POST',
    agent: more.agent ?? false,
    headers: { 'content-type': 'application/json', 'content-length': bytes.length, ...more.headers },
  });
  const answer = new Promise<Answer>((resolve) => {
    const end = (clean: boolean): void => resolve({ status, headers, text, clean });
    request.on('response', (response) => {
      status = response.statusCode ?? 0;
      headers = response.headers;
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => {
        text += chunk;
        for (const watch of watchers) watch();
      });
      response.on('error', () => undefined);
      response.on('close', () => end(response.complete));
    });
    request.on('error', () => end(false));
    request.on('close', () => {
      if (status === 0) end(false);
    });
  });
  request.end(bytes);
  return {
    request,
    answer,
    until: (wanted) =>
      new Promise((resolve) => {
        const watch = (): void => {
          if (!text.includes(wanted)) return;
          watchers.delete(watch);
          resolve(text);
        };
        watchers.add(watch);
        watch();
      }),
  };
}
