/**
 * The connections to nodes: one pool for each address, made when it is first needed and closed when long unused.
 * A pool has no fixed number of connections, because slow streams would starve the rest; requests in flight are bounded
 * by the tiers. Connections are kept alive, carry one request at a time, and follow no redirect.
 * Nodes are untrusted: the head of an answer and the bytes of all answers held at once are bounded here.
 */
import { BodyBudget } from '../../shared/runtime/byte-budget.ts';
import { Ticker } from '../../shared/runtime/ticker.ts';
import { waits } from '../../shared/runtime/waits.ts';
import { NodeWires } from './node-wires.ts';

export interface NodePoolsOptions {
  /** The credential of a name; undefined where this gateway was not given it. */
  readonly credential: (name: string) => string | undefined;
  /** For a connection to a node; 2 s by default. */
  readonly connectMs?: number;
  /** A connection could not be opened, because this process may open no further file. */
  readonly onOutOfFiles?: () => void;
  /** How exactly waits on nodes are kept. */
  readonly tickMs?: number;
  /** A pool unused for so long is closed. */
  readonly unusedMs?: number;
}

/** A node's address, taken apart once. */
export interface Upstream {
  readonly pool: NodeWires;
  /** Before every path; empty, or from its slash to the last character before the next. */
  readonly pathPrefix: string;
  usedMs: number;
}

/** Engines built on uvicorn close an idle connection after 5 s; it must be closed here before. */
const keepAliveMs = 4000;
/** A credential changed on disk takes effect within this. */
const credentialMs = 5000;

export class NodePools {
  readonly ticker: Ticker;
  readonly connectMs: number;
  /** Bounds all answers held at once that are not streamed. */
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

  /** Pools open now. */
  get size(): number {
    return this.#upstreams.size;
  }

  /** Connections open now, over all pools. */
  get connections(): number {
    let sum = 0;
    for (const { pool } of this.#upstreams.values()) sum += pool.connected;
    return sum;
  }

  /** `url`: base address of a node, already checked when the node was registered. */
  upstream(url: string): Upstream {
    let upstream = this.#upstreams.get(url);
    if (upstream === undefined) {
      upstream = this.#open(url);
      this.#upstreams.set(url, upstream);
    }
    upstream.usedMs = performance.now();
    return upstream;
  }

  /** The credential of a name. Read again every few seconds, not with every request. */
  credential(name: string): string | undefined {
    const nowMs = performance.now();
    const known = this.#credentials.get(name);
    if (known !== undefined && nowMs - known.readMs < credentialMs) return known.value;
    const value = this.#options.credential(name);
    this.#credentials.set(name, { value, readMs: nowMs });
    return value;
  }

  /** Takes no further request; those in flight may end within `graceMs`, then their connections are destroyed. */
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
