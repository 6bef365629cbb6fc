/**
 * A simulated node: a deterministic OpenAI-compatible inference server for demo, tests and load.
 * It echoes its prompt, counts tokens by a documented rule, can behave as each engine does, and can be configured to
 * fail. `stats()` reports what it did, and tests compare that with what a gateway reports.
 */
import { Registry } from 'prom-client';
import type { Dialect } from '../../schemas/names.ts';
import { Connections } from '../../shared/runtime/connections.ts';
import { urlOf } from '../../shared/runtime/listener.ts';
import type { Certificate } from '../../shared/runtime/tls.ts';
import { type Behaviour, parseBehaviour } from './behaviour.ts';
import type { SimStats } from './ledger.ts';
import { SimServer } from './server.ts';

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

export interface SimNode {
  /** Base address, without `/v1`. */
  readonly url: string;
  readonly port: number;
  /** False while its behaviour refuses connections. */
  readonly listening: boolean;
  stats(): SimStats;
  /** Replaces the loaded models. */
  setModels(models: readonly string[]): void;
  /** Replaces the behaviour; its rules count from zero. */
  setBehaviour(behaviour: Behaviour): void;
  /** Ends every connection and releases the port. Idempotent. */
  close(): Promise<void>;
}

/** Starts a node; resolves once it listens. Rejects if the address is not available. */
export async function startSimNode(options: SimNodeOptions): Promise<SimNode> {
  const bind = options.bind ?? '127.0.0.1';
  const server = new SimServer({
    bind,
    port: options.port ?? 0,
    models: options.models,
    imageModels: options.imageModels ?? [],
    reranks: options.reranks ?? false,
    tokensPerSecond: options.tokensPerSecond ?? 200,
    behaviour: options.behaviour ?? parseBehaviour({}),
    contextTokens: options.contextTokens ?? 131_072,
    dialect: options.dialect ?? 'vllm',
    concurrency: options.concurrency ?? Number.POSITIVE_INFINITY,
    recordBodies: options.recordBodies ?? false,
    cacheTokens: options.cacheTokens ?? 0,
    promptTokensPerSecond: options.promptTokensPerSecond ?? 0,
    certificate: options.certificate,
    connections: options.connections ?? new Connections({ registry: new Registry() }),
  });
  const port = await server.open();
  return {
    url: urlOf({ address: bind, port }, options.certificate !== undefined),
    port,
    get listening() {
      return server.listening;
    },
    stats: () => server.stats(),
    setModels: (models) => server.setModels(models),
    setBehaviour: (behaviour) => server.setBehaviour(behaviour),
    close: () => server.close(),
  };
}
