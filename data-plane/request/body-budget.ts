/**
 * How much memory bodies may take: all together, and those of one organisation. The share keeps one tenant, with however
 * many connections, from taking the memory that all others need.
 */
import type { Caller } from './authenticate.ts';
import { Refusal } from './refusal.ts';

const allBytesMax = 512 * 1024 * 1024;
/** An organisation's share of it. */
const shares = 8;

/** Memory to be charged for what is held; who takes gives back. */
export interface Memory {
  /** False where it would be too much; nothing is taken then. */
  take(bytes: number): boolean;
  give(bytes: number): void;
  /** Why there was none, for the client. Its text is true of the last that was not given. */
  refusal(): Refusal;
}

/** Who is charged for the memory that bodies take, and takes turns with others. */
export function ownerOf(caller: Exclude<Caller, { readonly kind: 'nobody' }>): string {
  return caller.kind === 'key' ? caller.owner.organisation : `visitor:${caller.visitor}`;
}

export class BodyBudget implements Memory {
  readonly #bytesMax: number;
  readonly #shareBytesMax: number;
  readonly #usedByOwner = new Map<string, number>();
  #usedBytes = 0;

  constructor(bytesMax = allBytesMax, shareBytesMax = Math.floor(bytesMax / shares)) {
    this.#bytesMax = bytesMax;
    this.#shareBytesMax = shareBytesMax;
  }

  /** Bytes taken now. */
  get usedBytes(): number {
    return this.#usedBytes;
  }

  /** The memory of one organisation or visitor. */
  of(owner: string): Memory {
    const used = (): number => this.#usedByOwner.get(owner) ?? 0;
    let isShareSpent = false;
    return {
      take: (bytes) => {
        isShareSpent = used() + bytes > this.#shareBytesMax;
        if (isShareSpent || !this.take(bytes)) return false;
        this.#usedByOwner.set(owner, used() + bytes);
        return true;
      },
      give: (bytes) => {
        this.give(bytes);
        const left = used() - bytes;
        if (left > 0) this.#usedByOwner.set(owner, left);
        else this.#usedByOwner.delete(owner);
      },
      refusal: () => (isShareSpent ? shareSpent() : this.refusal()),
    };
  }

  take(bytes: number): boolean {
    if (this.#usedBytes + bytes > this.#bytesMax) return false;
    this.#usedBytes += bytes;
    return true;
  }

  give(bytes: number): void {
    this.#usedBytes -= bytes;
  }

  refusal(): Refusal {
    const message = 'The service holds too many bodies of requests and answers now. Try again.';
    return new Refusal('InferenceUnavailableError', message, { reason: 'body budget' });
  }
}

function shareSpent(): Refusal {
  const message =
    'The bodies of your organisation’s requests take all the memory that one organisation may have at a time. Try again once one of them is done.';
  return new Refusal('InferenceUnavailableError', message, { reason: 'body budget of the organisation' });
}
