/**
 * Reads a request's body whole, within bounds: one body's size, all bodies in flight together, and the client's pace.
 * Nothing of it is logged or kept beyond its request.
 */
import type { IncomingMessage } from 'node:http';
import { Refusal } from './refusal.ts';

export const bodyBytesMax = 32 * 1024 * 1024;
const allBodiesBytesMax = 512 * 1024 * 1024;

/** The client left before its body was whole; there is nobody to answer. */
export class ClientGone extends Error {
  override readonly name = 'ClientGone';
}

/** How much memory all bodies in flight may take together. */
export class BodyBudget {
  readonly #max: number;
  #used = 0;

  constructor(bytesMax = allBodiesBytesMax) {
    this.#max = bytesMax;
  }

  take(bytes: number): boolean {
    if (this.#used + bytes > this.#max) return false;
    this.#used += bytes;
    return true;
  }

  give(bytes: number): void {
    this.#used -= bytes;
  }

  get usedBytes(): number {
    return this.#used;
  }
}

export interface Body {
  readonly bytes: Buffer;
  /** Gives the memory back to the budget; once. */
  release(): void;
}

function tooLarge(): Refusal {
  return new Refusal('PayloadTooLargeError', `The request body is larger than ${bodyBytesMax} bytes.`);
}

function noRoom(): Refusal {
  const message = 'The service holds too many request bodies now. Try again.';
  return new Refusal('InferenceUnavailableError', message, { reason: 'body budget' });
}

/**
 * Throws PayloadTooLargeError, or InferenceUnavailableError where memory for bodies has run out, or ClientGone.
 * `onWanted` is called once, unless the body is refused by its declared length alone.
 */
export function readBody(
  request: IncomingMessage,
  budget: BodyBudget,
  onWanted: () => void = () => undefined,
): Promise<Body> {
  const declared = Number(request.headers['content-length'] ?? 0);
  if (declared > bodyBytesMax) return Promise.reject(tooLarge());
  onWanted();
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    let settled = false;
    const fail = (error: Error): void => {
      if (settled) return;
      settled = true;
      budget.give(bytes);
      reject(error);
    };
    // The listeners stay: the request lives no longer than its exchange, and a lost connection closes it without an error.
    request.on('data', (chunk: Buffer): void => {
      if (settled) return;
      if (bytes + chunk.length > bodyBytesMax) {
        fail(tooLarge());
        return;
      }
      if (!budget.take(chunk.length)) {
        fail(noRoom());
        return;
      }
      bytes += chunk.length;
      chunks.push(chunk);
    });
    request.on('end', (): void => {
      if (settled) return;
      settled = true;
      let held = bytes;
      const release = (): void => {
        budget.give(held);
        held = 0;
      };
      const whole = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks, bytes);
      resolve({ bytes: whole, release });
    });
    request.on('close', () => {
      if (!settled) fail(new ClientGone('the client left before its body was whole'));
    });
  });
}
