/**
 * Gathers a body of a node that is wanted whole, within a bound of its own and the budget of all bodies.
 * Whoever makes one releases it, on every path.
 */
import type { BodyBudget } from '../request/body.ts';

export class ByteCollector {
  readonly #budget: BodyBudget;
  readonly #bytesMax: number;
  #chunks: Buffer[] = [];
  #bytes = 0;

  constructor(budget: BodyBudget, bytesMax: number) {
    this.#budget = budget;
    this.#bytesMax = bytesMax;
  }

  /** False where it does not fit; nothing more is to be added then. */
  add(chunk: Buffer): boolean {
    if (this.#bytes + chunk.length > this.#bytesMax || !this.#budget.take(chunk.length)) return false;
    this.#bytes += chunk.length;
    this.#chunks.push(chunk);
    return true;
  }

  /** The body as JSON; undefined where it is none. */
  json(): unknown {
    const whole = this.#chunks.length === 1 ? this.#chunks[0] : Buffer.concat(this.#chunks, this.#bytes);
    try {
      return JSON.parse((whole as Buffer).toString('utf8'));
    } catch {
      return undefined;
    }
  }

  /** Gives the memory back; again is harmless. */
  release(): void {
    this.#budget.give(this.#bytes);
    this.#chunks = [];
    this.#bytes = 0;
  }
}

/** Whether a content type means JSON, whatever its parameters. */
export function isJsonType(contentType: string): boolean {
  return /^application\/json\s*(;|$)/i.test(contentType);
}
