/**
 * A simulated node: a deterministic OpenAI-compatible inference server for demo, tests and load.
 * It echoes its prompt, counts tokens by a documented rule, can behave as each engine does, and can be configured to
 * fail: a request that was read meets the fault that the rules select for it, waits for a slot, and gets its plan.
 * The control API is under `/sim/` on the same listener, without faults, not counted and unauthenticated:
 * a simulated node holds nothing secret, and its replays take no file names from the network.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Server as TlsServer } from 'node:https';
import type { Socket } from 'node:net';
import { Registry } from 'prom-client';
import type { Dialect } from '../../schemas/names.ts';
import { Connections } from '../../shared/runtime/connections.ts';
import { createHttpServer, refuseAsText } from '../../shared/runtime/http-server.ts';
import { listen, urlOf } from '../../shared/runtime/listener.ts';
import type { Certificate } from '../../shared/runtime/tls.ts';
import { type Behaviour, BehaviourInvalid, type Fault, parseBehaviour, RuleBook } from './behaviour.ts';
import { jsonOf, readBody } from './body.ts';
import { emit } from './emission.ts';
import { answerGet, answerPost, refuse, type SimEngine } from './engine.ts';
import { distortionOf, spoil } from './faults.ts';
import { guarded } from './guarded.ts';
import { Ledger, type LedgerEntry, type SimStats } from './ledger.ts';
import { answerLoad } from './load-answer.ts';
import { isRecord } from './loose.ts';
import { jsonPlan, type Plan } from './plan.ts';
import { PrefixCache } from './prefix-cache.ts';
import { Slots } from './slots.ts';
import { answerWordsDefault } from './text.ts';
import { badRequest } from './validate.ts';

/** A request larger than this is refused, as is a control document above the smaller bound. */
const bodyBytesMax = 64 * 2 ** 20;
const controlBytesMax = 8 * 2 ** 20;
const modelsMax = 1000;
/** Wait between two tries to listen again on a port that somebody else took. */
const listenAgainMs = 100;
/** A keep-alive shorter than a client's own would race with its next request. */
const timeouts = { headersTimeoutMs: 60_000, requestTimeoutMs: 300_000, keepAliveTimeoutMs: 70_000 };

export interface SimNodeOptions {
  /** Address to listen on; 127.0.0.1 by default. */
  readonly bind?: string;
  /** 0 takes a free port. */
  readonly port?: number;
  readonly models: readonly string[];
  /** Those of the models that take images; only Ollama names them. */
  readonly imageModels?: readonly string[];
  /** Its models rerank, and do nothing else. */
  readonly reranks?: boolean;
  /** Pace of every stream; 0 is as fast as the client reads. */
  readonly tokensPerSecond?: number;
  readonly behaviour?: Behaviour;
  /** The window: prompt and answer together. */
  readonly contextTokens?: number;
  /** The engine whose API and behaviour the node has. */
  readonly dialect?: Dialect;
  /** Requests worked on at once; further ones wait in order. Unlimited by default. */
  readonly concurrency?: number;
  /** Tokens that its prefix cache holds; without it, it has none. Cached tokens are reported as vLLM does. */
  readonly cacheTokens?: number;
  /** Speed at which it reads what is not cached of a prompt; 0, the default, is at once. */
  readonly promptTokensPerSecond?: number;
  /** Keep the last 100 request bodies in `stats()`. They hold prompts: for tests only. */
  readonly recordBodies?: boolean;
  readonly certificate?: Certificate | undefined;
  /** Bounds and counts its connections; its own by default. */
  readonly connections?: Connections;
}

export class SimNode {
  readonly #options: SimNodeOptions;
  readonly #server: Server | TlsServer;
  readonly #ledger = new Ledger();
  readonly #slots: Slots;
  readonly #engineHeaders: Readonly<Record<string, string>>;
  #engine: SimEngine;
  #rules = new RuleBook({ rules: [] });
  #serial = 0;
  #port = 0;
  #resetting = false;
  #closed = false;
  #reopen: NodeJS.Timeout | undefined;

  constructor(options: SimNodeOptions) {
    this.#options = options;
    const { models, dialect = 'vllm', imageModels = [], reranks = false, cacheTokens = 0 } = options;
    const { contextTokens = 131_072, tokensPerSecond = 200, promptTokensPerSecond = 0 } = options;
    this.#slots = new Slots(options.concurrency ?? Number.POSITIVE_INFINITY);
    this.#engine = {
      ...{ dialect, models, imageModels, reranks, contextTokens, tokensPerSecond, promptTokensPerSecond },
      answerWords: answerWordsDefault,
      prefixCache: cacheTokens > 0 ? new PrefixCache(cacheTokens) : undefined,
    };
    this.#engineHeaders =
      dialect === 'ollama' ? {} : { server: dialect === 'llamacpp' ? 'llama.cpp' : 'uvicorn' };
    const { certificate, connections = new Connections({ registry: new Registry() }) } = options;
    this.#server = createHttpServer(
      { name: 'node', certificate, connections, ...timeouts, badHttp: refuseAsText },
      (request, response) => guarded(response, () => this.#handle(request, response)),
    );
    this.#server.on('connection', (socket: Socket) => {
      socket.setNoDelay(true);
      if (this.#resetting) socket.resetAndDestroy();
    });
  }

  /** Rejects if the address is not available. */
  async open(): Promise<void> {
    const { port = 0, behaviour = parseBehaviour({}) } = this.#options;
    const address = await listen(
      this.#server,
      { host: this.#host, port },
      { bind: '--bind', port: '--port' },
    );
    this.#port = address.port;
    this.#server.on('error', () => this.#listenLater(listenAgainMs));
    this.setBehaviour(behaviour);
  }

  get port(): number {
    return this.#port;
  }

  /** Base address, without `/v1`. */
  get url(): string {
    return urlOf({ address: this.#host, port: this.#port }, this.#options.certificate !== undefined);
  }

  get #host(): string {
    return this.#options.bind ?? '127.0.0.1';
  }

  /** Ends every connection and releases the port. Idempotent. */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#reopen);
    if (!this.#server.listening) {
      this.#server.closeAllConnections();
      return;
    }
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.#server.closeAllConnections();
    await closed;
  }

  /** False while its behaviour refuses connections. */
  get listening(): boolean {
    return this.#server.listening;
  }

  stats(): SimStats {
    return this.#ledger.stats();
  }

  /** Replaces the loaded models. */
  setModels(models: readonly string[]): void {
    this.#engine = { ...this.#engine, models };
  }

  /** Replaces the behaviour; its rules count from zero. */
  setBehaviour(behaviour: Behaviour): void {
    this.#rules = new RuleBook(behaviour);
    this.#engine = { ...this.#engine, answerWords: behaviour.answerWords ?? answerWordsDefault };
    clearTimeout(this.#reopen);
    const connections = behaviour.connections;
    this.#resetting = connections?.mode === 'reset';
    if (connections?.mode === 'refused') {
      this.#server.close();
      this.#server.closeAllConnections();
    } else {
      this.#listen();
    }
    if (connections?.forMs !== undefined) this.#listenLater(connections.forMs);
  }

  #listenLater(waitMs: number): void {
    clearTimeout(this.#reopen);
    if (!this.#closed) this.#reopen = setTimeout(() => this.#listen(false), waitMs);
  }

  #listen(resetting = this.#resetting): void {
    this.#resetting = resetting;
    if (!this.#server.listening && !this.#closed) this.#server.listen(this.#port, this.#host);
  }

  #handle(request: IncomingMessage, response: ServerResponse): void {
    const [path = '/'] = (request.url ?? '/').split('?', 1);
    const method = request.method ?? 'GET';
    response.on('error', () => {});
    if (path.startsWith('/sim/')) {
      readBody(request, controlBytesMax, (body) =>
        guarded(response, () => emit(this.#control(method, path, body, response), response)),
      );
      return;
    }
    const load = method === 'GET' ? answerLoad(path, this.#engine.dialect, this.#slots) : undefined;
    if (load !== undefined) {
      request.resume();
      emit(load, response);
      return;
    }
    const requestId = request.headers['x-request-id'];
    const queue: { release: (() => void) | undefined } = { release: undefined };
    const exchange = this.#ledger.begin(path, typeof requestId === 'string' ? requestId : '', response, () =>
      queue.release?.(),
    );
    if (method !== 'POST') {
      request.resume();
      this.#send(
        answerGet(path, this.#engine),
        this.#rules.pick({ method, path, model: '', stream: false }),
        exchange,
        response,
      );
      return;
    }
    readBody(request, bodyBytesMax, (body) => {
      const start = (): void => {
        queue.release = () => this.#slots.release();
        const contentType = request.headers['content-type'] ?? '';
        guarded(response, () => this.#post(path, contentType, body, exchange, response));
      };
      queue.release = () => this.#slots.leave(start);
      if (this.#slots.acquire(start)) return;
      queue.release = undefined;
      const { dialect } = this.#engine;
      const full = { status: 503, message: 'too many requests wait', type: 'ServiceUnavailableError' };
      this.#send(refuse(dialect, full), undefined, exchange, response);
    });
  }

  #post(
    path: string,
    contentType: string,
    bytes: Buffer | undefined,
    exchange: LedgerEntry,
    response: ServerResponse,
  ): void {
    const { dialect } = this.#engine;
    const body = bytes === undefined ? undefined : jsonOf(bytes);
    if (this.#options.recordBodies) this.#ledger.record(body);
    const known = isRecord(body) ? body : {};
    exchange.model = typeof known.model === 'string' ? known.model : '';
    const fault = this.#rules.pick({
      method: 'POST',
      path,
      model: exchange.model,
      stream: known['stream'] === true,
    });
    const strict = dialect === 'vllm' || dialect === 'sglang';
    if (strict && !contentType.startsWith('application/json')) {
      const refusal = badRequest("Unsupported Media Type: Only 'application/json' is allowed");
      this.#send(refuse(dialect, refusal), fault, exchange, response);
      return;
    }
    if (!isRecord(body)) {
      const refusal = bytes === undefined ? { ...tooLarge } : badRequest('JSON decode error', 'body');
      this.#send(refuse(dialect, refusal), fault, exchange, response);
      return;
    }
    this.#serial += 1;
    const serial = this.#serial.toString(16).padStart(16, '0');
    const created = Math.floor(Date.now() / 1000);
    const plan = answerPost(path, body, this.#engine, { serial, created, distortion: distortionOf(fault) });
    this.#send(plan, fault, exchange, response);
  }

  #send(plan: Plan, fault: Fault | undefined, exchange: LedgerEntry, response: ServerResponse): void {
    exchange.fault = fault !== undefined && fault.kind !== 'latency';
    exchange.stream = plan.stream;
    exchange.work = plan.work;
    const spoilt = fault === undefined ? plan : spoil(plan, fault, this.#engine.dialect);
    const marked = { ...spoilt, headers: { ...this.#engineHeaders, ...spoilt.headers } };
    emit(marked, response, () => {
      exchange.ended = true;
    });
  }

  /** Answers under `/sim/`. */
  #control(method: string, path: string, bytes: Buffer | undefined, response: ServerResponse): Plan {
    const document = bytes === undefined ? undefined : jsonOf(bytes);
    switch (`${method} ${path}`) {
      case 'GET /sim/stats':
        return jsonPlan(200, this.stats());
      case 'POST /sim/models': {
        const models = isRecord(document) ? document['models'] : document;
        if (!isModelList(models)) return jsonPlan(400, { message: 'expected a list of model names' });
        this.setModels(models);
        return jsonPlan(200, { models });
      }
      case 'PUT /sim/behaviour':
        return this.#replaceBehaviour(document, response);
      default:
        return jsonPlan(404, { message: 'no such control' });
    }
  }

  #replaceBehaviour(document: unknown, response: ServerResponse): Plan {
    try {
      const behaviour = parseBehaviour(document);
      // A behaviour that ends connections waits until this one has its answer.
      if (behaviour.connections === undefined) this.setBehaviour(behaviour);
      else response.once('close', () => this.setBehaviour(behaviour));
      return jsonPlan(200, { rules: behaviour.rules.length }, { connection: 'close' });
    } catch (error) {
      if (!(error instanceof BehaviourInvalid)) throw error;
      return jsonPlan(400, { message: error.message });
    }
  }
}

/** Starts a node; resolves once it listens. Rejects if the address is not available. */
export async function startSimNode(options: SimNodeOptions): Promise<SimNode> {
  const node = new SimNode(options);
  await node.open();
  return node;
}

const tooLarge = { status: 413, message: 'the body is too large', type: 'BadRequestError' };

function isModelList(value: unknown): value is string[] {
  return Array.isArray(value) && value.length <= modelsMax && value.every((name) => typeof name === 'string');
}
