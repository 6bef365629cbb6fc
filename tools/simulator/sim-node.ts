/**
 * Simulated node: a deterministic OpenAI-compatible inference server for demos, tests and load. It echoes its prompt, counts
 * tokens by a documented rule, and imitates one of the engines. It does not inject faults; the test nodes in test/simulator
 * do.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Server as TlsServer } from 'node:https';
import type { Socket } from 'node:net';
import { Registry } from 'prom-client';
import type { Dialect } from '../../schemas/names.ts';
import { ClientGone, readPieces } from '../../shared/runtime/body-pieces.ts';
import { ChunkBuffer } from '../../shared/runtime/chunk-buffer.ts';
import { Connections } from '../../shared/runtime/connections.ts';
import { createHttpServer, refuseAsText } from '../../shared/runtime/http-server.ts';
import { listen, listenerUrl } from '../../shared/runtime/listener.ts';
import type { Certificate } from '../../shared/runtime/tls.ts';
import { emit } from './emission.ts';
import { answerGet, answerPost, refuse, type SimEngine } from './engine.ts';
import { guarded } from './guarded.ts';
import { isRecord } from './loose.ts';
import { bodyPlan, jsonPlan, type Plan } from './plan.ts';
import { PrefixCache } from './prefix-cache.ts';
import { Slots } from './slots.ts';
import { answerWordsDefault } from './text.ts';
import { badRequest } from './validate.ts';

const bodyBytesMax = 64 * 2 ** 20;
/** Connections are kept alive longer than clients keep them. Otherwise the node might close one just as a client uses it. */
const timeouts = { headersTimeoutMs: 60_000, requestTimeoutMs: 60_000, keepAliveTimeoutMs: 70_000 };

export interface SimNodeOptions {
  /** Address to listen on. Defaults to 127.0.0.1. */
  readonly bind?: string;
  /** Port to listen on. With 0, a free port is chosen. */
  readonly port?: number;
  readonly models: readonly string[];
  /** Models that accept images. Only Ollama reports them. */
  readonly imageModels?: readonly string[];
  readonly reranks?: boolean;
  /** Number of tokens per second in every stream. With 0, streams are as fast as the client reads. */
  readonly tokensPerSecond?: number;
  /** Size of the context window in tokens, for prompt and answer together. */
  readonly contextTokens?: number;
  readonly dialect?: Dialect;
  /** Maximum number of concurrent requests. Further requests wait in order. Unlimited by default. */
  readonly concurrency?: number;
  /** Size of the prefix cache in tokens. If absent, there is no cache. Cached tokens are reported as in vLLM. */
  readonly cacheTokens?: number;
  /** Number of uncached prompt tokens read per second. With 0, the default, reading takes no time. */
  readonly promptTokensPerSecond?: number;
  readonly certificate?: Certificate | undefined;
  /** Counts and limits connections. Several nodes may share one such object. By default, each node has its own. */
  readonly connections?: Connections;
}

export interface SimRequest {
  readonly method: string;
  readonly path: string;
  /** Body of the request as a JSON value, or undefined if there is none. */
  readonly body: unknown;
}

export class SimNode {
  readonly #options: SimNodeOptions;
  readonly #slots: Slots;
  readonly #engineHeaders: Readonly<Record<string, string>>;
  #serial = 0;
  #port = 0;
  #requests = 0;
  #inFlight = 0;
  protected readonly server: Server | TlsServer;
  protected engine: SimEngine;

  constructor(options: SimNodeOptions) {
    this.#options = options;
    const { models, dialect = 'vllm', imageModels = [], reranks = false, cacheTokens = 0 } = options;
    const { contextTokens = 131_072, tokensPerSecond = 200, promptTokensPerSecond = 0 } = options;
    this.#slots = new Slots(options.concurrency ?? Number.POSITIVE_INFINITY);
    this.engine = {
      ...{ dialect, models, imageModels, reranks, contextTokens, tokensPerSecond, promptTokensPerSecond },
      answerWords: answerWordsDefault,
      prefixCache: cacheTokens > 0 ? new PrefixCache(cacheTokens) : undefined,
    };
    this.#engineHeaders =
      dialect === 'ollama' ? {} : { server: dialect === 'llamacpp' ? 'llama.cpp' : 'uvicorn' };
    const { certificate, connections = new Connections({ registry: new Registry() }) } = options;
    this.server = createHttpServer(
      { name: 'node', certificate, connections, ...timeouts, badHttp: refuseAsText },
      (request, response) => guarded(response, () => this.handle(request, response)),
    );
    this.server.on('connection', (socket: Socket) => socket.setNoDelay(true));
  }

  /** Opens the listener. Rejects if the address is not available. */
  async open(): Promise<void> {
    const { port = 0 } = this.#options;
    const address = await listen(this.server, { host: this.host, port }, { bind: '--bind', port: '--port' });
    this.#port = address.port;
    // Ignore errors, because a connection that cannot be accepted for lack of file descriptors affects nothing else.
    this.server.on('error', () => {});
  }

  get port(): number {
    return this.#port;
  }

  /** Base URL of the node, without `/v1`. */
  get url(): string {
    return listenerUrl({ address: this.host, port: this.#port }, this.#options.certificate !== undefined);
  }

  protected get host(): string {
    return this.#options.bind ?? '127.0.0.1';
  }

  /** Closes every connection and releases the port. May be called more than once. */
  async close(): Promise<void> {
    if (!this.server.listening) {
      this.server.closeAllConnections();
      return;
    }
    const closed = new Promise<void>((resolve) => this.server.close(() => resolve()));
    this.server.closeAllConnections();
    await closed;
  }

  get listening(): boolean {
    return this.server.listening;
  }

  /** Number of requests that have begun since the node started. */
  get requests(): number {
    return this.#requests;
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  protected handle(request: IncomingMessage, response: ServerResponse): void {
    const [path = '/'] = (request.url ?? '/').split('?', 1);
    const method = request.method ?? 'GET';
    response.on('error', () => {});
    const load = method === 'GET' ? answerLoad(path, this.engine.dialect, this.#slots) : undefined;
    if (load !== undefined) {
      request.resume();
      emit(load, response);
      return;
    }
    this.begin(path, request, response);
    if (method !== 'POST') {
      request.resume();
      this.send(answerGet(path, this.engine), { method, path, body: undefined }, response);
      return;
    }
    const queue: { release: (() => void) | undefined } = { release: undefined };
    response.once('close', () => queue.release?.());
    readBody(request, bodyBytesMax, (body) => {
      const start = (): void => {
        queue.release = () => this.#slots.release();
        const contentType = request.headers['content-type'] ?? '';
        guarded(response, () => this.#post(path, contentType, body, response));
      };
      queue.release = () => this.#slots.leave(start);
      if (this.#slots.acquire(start)) return;
      queue.release = undefined;
      const full = { status: 503, message: 'too many requests wait', type: 'ServiceUnavailableError' };
      this.send(refuse(this.engine.dialect, full), undefined, response);
    });
  }

  /** Counts a request as running until its response closes. */
  protected begin(_path: string, _request: IncomingMessage, response: ServerResponse): void {
    this.#requests += 1;
    this.#inFlight += 1;
    response.once('close', () => {
      this.#inFlight -= 1;
    });
  }

  #post(path: string, contentType: string, bytes: Buffer | undefined, response: ServerResponse): void {
    const body = bytes === undefined ? undefined : jsonOf(bytes);
    const plan = this.#answer(path, contentType, body, bytes === undefined);
    this.send(plan, { method: 'POST', path, body }, response);
  }

  #answer(path: string, contentType: string, body: unknown, isTooLarge: boolean): Plan {
    const { dialect } = this.engine;
    const strict = dialect === 'vllm' || dialect === 'sglang';
    if (strict && !contentType.startsWith('application/json'))
      return refuse(dialect, badRequest("Unsupported Media Type: Only 'application/json' is allowed"));
    if (!isRecord(body))
      return refuse(dialect, isTooLarge ? { ...tooLarge } : badRequest('JSON decode error', 'body'));
    this.#serial += 1;
    const serial = this.#serial.toString(16).padStart(16, '0');
    return answerPost(path, body, this.engine, { serial, created: Math.floor(Date.now() / 1000) });
  }

  /** Sends a planned response. `_request` is undefined if the request was refused before it got a slot. */
  protected send(plan: Plan, _request: SimRequest | undefined, response: ServerResponse): void {
    emit(this.signed(plan), response);
  }

  /** Adds the headers that the imitated engine sends. */
  protected signed<P extends Plan>(plan: P): P {
    return { ...plan, headers: { ...this.#engineHeaders, ...plan.headers } };
  }
}

/** Starts a node and resolves once it listens. Rejects if the address is not available. */
export async function startSimNode(options: SimNodeOptions): Promise<SimNode> {
  const node = new SimNode(options);
  await node.open();
  return node;
}

const tooLarge = { status: 413, message: 'the body is too large', type: 'BadRequestError' };

interface SimLoad {
  readonly running: number;
  readonly waiting: number;
}

/** Plans the response to a GET request for the engine's load. Returns undefined if the engine does not have the path. */
function answerLoad(path: string, dialect: Dialect, { running, waiting }: SimLoad): Plan | undefined {
  switch (`${dialect} ${path}`) {
    case 'vllm /metrics':
      return metrics({ 'vllm:num_requests_running': running, 'vllm:num_requests_waiting': waiting });
    case 'sglang /metrics':
      return metrics({ 'sglang:num_running_reqs': running, 'sglang:num_queue_reqs': waiting });
    case 'llamacpp /slots':
      return jsonPlan(
        200,
        Array.from({ length: Math.max(1, running) }, (_, id) => ({ id, is_processing: id < running })),
      );
    default:
      return undefined;
  }
}

function metrics(gauges: Readonly<Record<string, number>>): Plan {
  const lines = Object.entries(gauges).map(
    ([name, value]) => `# TYPE ${name} gauge\n${name}{engine="0"} ${value}.0\n`,
  );
  return bodyPlan(200, lines.join(''), 'text/plain; version=0.0.4; charset=utf-8');
}

/** Passes the whole body to `done`, or undefined if it exceeds `bytesMax`. If the client disconnects, never calls `done`. */
export function readBody(
  request: IncomingMessage,
  bytesMax: number,
  done: (body: Buffer | undefined) => void,
): void {
  const bytes = new ChunkBuffer({ bytesMax });
  readPieces(request, (piece) => {
    if (!bytes.add(piece)) throw new RangeError('the body is too large');
  }).then(
    () => done(bytes.whole()),
    (error: unknown) => {
      if (!(error instanceof ClientGone)) done(undefined);
    },
  );
}

/** Parses a body as JSON. Returns undefined if it is not JSON. */
export function jsonOf(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'));
  } catch {
    return undefined;
  }
}
