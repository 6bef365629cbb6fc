/**
 * The connections to nodes, in one pool per address, opened on first use and closed after long disuse. Pools do not limit the
 * number of connections, because slow streams would starve other requests; tiers bound the requests in flight. Nodes are
 * untrusted, so answer heads are bounded, as are the bytes of all buffered answers together.
 */
import { BodyBudget } from '../../shared/runtime/byte-budget.ts';
import { Ticker } from '../../shared/runtime/ticker.ts';
import { waits } from '../../shared/runtime/waits.ts';
import { NodeWires } from './node-wires.ts';

export interface NodePoolsOptions {
  /** Returns the credential with this name, or undefined if the gateway does not have it. */
  readonly credential: (name: string) => string | undefined;
  /** Timeout for connecting to a node; 2 s by default. */
  readonly connectMs?: number;
  /** Called when a connection cannot be opened because the process has reached its limit of open files. */
  readonly onOutOfFiles?: () => void;
  /** Resolution of timeouts on nodes, in ms; 250 by default. */
  readonly tickMs?: number;
  /** Time without use after which a pool is closed; 5 minutes by default. */
  readonly unusedMs?: number;
}

/** A node's parsed address, with its pool. */
export interface Upstream {
  readonly pool: NodeWires;
  /** Prefix of every path: empty, or a path that starts with a slash and does not end with one. */
  readonly pathPrefix: string;
  usedMs: number;
}

/** Engines built on uvicorn close idle connections after 5 s. The gateway must close them first. */
const keepAliveMs = 4000;
/** Longest time until a credential changed on disk takes effect. */
const credentialMs = 5000;

export class NodePools {
  readonly ticker: Ticker;
  readonly connectMs: number;
  /** Bounds all buffered answers together. Streamed answers do not count. */
  readonly answerBytes = new BodyBudget();
  readonly #upstreams = new Map<string, Upstream>();
  readonly #credentials = new Map<string, { readonly value: string | undefined; readonly readMs: number }>();
  readonly #options: NodePoolsOptions;
  readonly #unusedMs: number;
  readonly #sweeper: NodeJS.Timeout;

  constructor(options: NodePoolsOptions) {
    this.#options = options;
    this.connectMs = options.connectMs ?? waits.nodeConnect.ms;
    this.ticker = new Ticker(options.tickMs ?? 250);
    this.#unusedMs = options.unusedMs ?? 300_000;
    this.#sweeper = setInterval(() => this.#closeUnused(), Math.ceil(this.#unusedMs / 5)).unref();
  }

  get size(): number {
    return this.#upstreams.size;
  }

  /** Number of open connections in all pools. */
  get connections(): number {
    let sum = 0;
    for (const { pool } of this.#upstreams.values()) sum += pool.connected;
    return sum;
  }

  /** `url` is a node's base address, which was validated when the node was registered. */
  upstream(url: string): Upstream {
    let upstream = this.#upstreams.get(url);
    if (upstream === undefined) {
      upstream = this.#open(url);
      this.#upstreams.set(url, upstream);
    }
    upstream.usedMs = performance.now();
    return upstream;
  }

  /** Returns the credential with this name, cached for a few seconds. */
  credential(name: string): string | undefined {
    const nowMs = performance.now();
    const known = this.#credentials.get(name);
    if (known !== undefined && nowMs - known.readMs < credentialMs) return known.value;
    const value = this.#options.credential(name);
    this.#credentials.set(name, { value, readMs: nowMs });
    return value;
  }

  /** Stops accepting requests. Those in flight may finish within `graceMs`; then their connections are destroyed. */
  async close(graceMs = 0): Promise<void> {
    clearInterval(this.#sweeper);
    const pools = [...this.#upstreams.values()].map(({ pool }) => pool);
    const grace = AbortSignal.timeout(Math.max(graceMs, 1));
    const graceOver = new Promise<void>((resolve) => {
      grace.addEventListener('abort', () => resolve(), { once: true });
    });
    await Promise.race([Promise.all(pools.map((pool) => pool.close())), graceOver]);
    await Promise.all(pools.map((pool) => pool.destroy()));
    this.#upstreams.clear();
  }

  #open(url: string): Upstream {
    const { origin, pathname } = new URL(url);
    const onOutOfFiles = (): void => this.#options.onOutOfFiles?.();
    const pool = new NodeWires(origin, { keepAliveMs, onOutOfFiles });
    return { pool, pathPrefix: pathname.replace(/\/+$/, ''), usedMs: 0 };
  }

  #closeUnused(): void {
    const unusedSinceMs = performance.now() - this.#unusedMs;
    for (const [url, { pool, usedMs }] of this.#upstreams) {
      if (usedMs > unusedSinceMs || pool.calls > 0) continue;
      this.#upstreams.delete(url);
      void pool.destroy();
    }
    this.#credentials.clear();
  }
}
