/**
 * All connections to nodes, in one pool per address. A pool is opened at its first use and closed when it has been unused for
 * long. Pools do not limit the number of connections, because slow streams would then starve other requests; tiers limit the
 * requests in flight instead. Nodes are untrusted, so the size of response heads and the total size of all buffered responses
 * are limited.
 */
import { BodyBudget } from '../../shared/runtime/byte-budget.ts';
import { Ticker } from '../../shared/runtime/ticker.ts';
import { waits } from '../../shared/runtime/waits.ts';
import { NodeWires } from './node-wires.ts';

export interface NodePoolsOptions {
  /** Returns the credential with this name, or undefined if this gateway has none of that name. */
  readonly credential: (name: string) => string | undefined;
  /** Time-out in ms for connecting to a node. The default is 2 s. */
  readonly connectMs?: number;
  /** Called if a connection cannot be opened because the process has too many open files. */
  readonly onOutOfFiles?: () => void;
  /** Interval in ms at which time-outs are checked. The default is 250. */
  readonly tickMs?: number;
  /** Time in ms after which an unused pool is closed. The default is 5 minutes. */
  readonly unusedMs?: number;
}

/** Pool of connections to a node's address. */
export interface Upstream {
  readonly pool: NodeWires;
  /** Start of every path at this address: either empty, or with a slash at its beginning but not at its end. */
  readonly pathPrefix: string;
  usedMs: number;
}

/** Longest idle time of a connection in ms. Must be shorter than the 5 s after which engines on uvicorn close idle ones. */
const keepAliveMs = 4000;
/** Maximum time in ms until a credential that has changed on disk takes effect. */
const credentialMs = 5000;

export class NodePools {
  readonly ticker: Ticker;
  readonly connectMs: number;
  /** Limit on the total size of all buffered responses. Streams do not count. */
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

  get connections(): number {
    let sum = 0;
    for (const { pool } of this.#upstreams.values()) sum += pool.connected;
    return sum;
  }

  /** Returns the pool for a node's base address. The address was validated when the node was registered. */
  upstream(url: string): Upstream {
    let upstream = this.#upstreams.get(url);
    if (upstream === undefined) {
      upstream = this.#open(url);
      this.#upstreams.set(url, upstream);
    }
    upstream.usedMs = performance.now();
    return upstream;
  }

  /** Returns the node credential with this name, which is cached for a few seconds. */
  credential(name: string): string | undefined {
    const nowMs = performance.now();
    const known = this.#credentials.get(name);
    if (known !== undefined && nowMs - known.readMs < credentialMs) return known.value;
    const value = this.#options.credential(name);
    this.#credentials.set(name, { value, readMs: nowMs });
    return value;
  }

  /** Stops accepting requests. Those in flight may finish within `graceMs`; after that, their connections are destroyed. */
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
