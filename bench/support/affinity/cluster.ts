/**
 * Nodes in simulated time: each has a prefix cache of stated size, computes the prompts that it does not have one after
 * the other, and writes answers side by side.
 */
import { RollingHash } from '../../../data-plane/core/rolling-hash.ts';
import type { Turn } from './workloads.ts';

/** As vLLM: blocks of 16 tokens. */
const blockTokens = 16;
const charactersPerToken = 4;

export interface ClusterSettings {
  readonly nodes: number;
  readonly cacheTokens: number;
  readonly prefillTokensPerSecond: number;
  readonly tokensPerSecond: number;
}

/** The blocks of a prompt: each names all text up to its end, and its tenant. */
export function blocksOf(tenant: string, { messages }: Turn): number[] {
  const hash = new RollingHash();
  hash.add(tenant);
  const blocks: number[] = [];
  const size = blockTokens * charactersPerToken;
  const text = messages.map(({ content }) => content).join('\n');
  for (let at = 0; at + size <= text.length; at += size) {
    hash.add(text, at, at + size);
    blocks.push(hash.value);
  }
  return blocks;
}

export class SimulatedNode {
  readonly node: string;
  readonly #settings: ClusterSettings;
  /** The least recently used come first. */
  readonly #cached = new Set<number>();
  #busyUntilMs = 0;
  inFlight = 0;
  isLost = false;
  /** Requests in flight, summed over time. */
  loadMs = 0;
  requests = 0;
  #changedMs = 0;

  constructor(node: string, settings: ClusterSettings) {
    this.node = node;
    this.#settings = settings;
  }

  /** Blocks of the prompt that are cached, from its start. */
  cachedOf(blocks: readonly number[]): number {
    const missing = blocks.findIndex((block) => !this.#cached.has(block));
    return missing === -1 ? blocks.length : missing;
  }

  begin(blocks: readonly number[], answerTokens: number, nowMs: number): Served {
    this.count(nowMs);
    this.inFlight += 1;
    this.requests += 1;
    const cached = this.cachedOf(blocks);
    for (const block of blocks) {
      this.#cached.delete(block);
      this.#cached.add(block);
    }
    const blocksMax = this.#settings.cacheTokens / blockTokens;
    for (const block of this.#cached) {
      if (this.#cached.size <= blocksMax) break;
      this.#cached.delete(block);
    }
    const computeMs = ((blocks.length - cached) * blockTokens * 1000) / this.#settings.prefillTokensPerSecond;
    this.#busyUntilMs = Math.max(this.#busyUntilMs, nowMs) + computeMs;
    const firstTokenMs = this.#busyUntilMs - nowMs + 1000 / this.#settings.tokensPerSecond;
    const totalMs = firstTokenMs + (answerTokens * 1000) / this.#settings.tokensPerSecond;
    return { cachedTokens: cached * blockTokens, tokens: blocks.length * blockTokens, firstTokenMs, totalMs };
  }

  end(nowMs: number): void {
    this.count(nowMs);
    this.inFlight -= 1;
  }

  count(nowMs: number): void {
    this.loadMs += this.inFlight * (nowMs - this.#changedMs);
    this.#changedMs = nowMs;
  }
}

export interface Served {
  readonly tokens: number;
  readonly cachedTokens: number;
  readonly firstTokenMs: number;
  readonly totalMs: number;
}
