/**
 * A limit of wrong secrets a minute, for each network address and for all together, wherever a secret is compared. The right
 * one is accepted whatever the limit says, because others may share its address. Forgets at the end of each minute.
 */
import type { FastifyRequest } from 'fastify';
import { peerOf } from '../../shared/runtime/connections.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { CommandError } from '../core/command-error.ts';

const windowMs = 60_000;

interface AttemptLimits {
  readonly perAddress: number;
  readonly all: number;
  readonly logger: Logger;
  /** Monotonic, ms. */
  readonly now?: () => number;
}

export class AttemptLimit {
  readonly #perAddress: number;
  readonly #all: number;
  readonly #now: () => number;
  readonly #counts = new Map<string, number>();
  #total = 0;
  #untilMs = 0;
  #isLogged = false;
  readonly #logger: Logger;

  constructor({ perAddress, all, logger, now = () => performance.now() }: AttemptLimits) {
    this.#perAddress = perAddress;
    this.#all = all;
    this.#logger = logger;
    this.#now = now;
  }

  /** The answer to a wrong secret, which counts: `refusal`, or that there were too many. */
  refuse({ raw }: FastifyRequest, refusal: CommandError): CommandError {
    const nowMs = this.#now();
    if (nowMs >= this.#untilMs) {
      this.#counts.clear();
      this.#total = 0;
      this.#isLogged = false;
      this.#untilMs = nowMs + windowMs;
    }
    const address = peerOf(raw.socket.remoteAddress);
    const count = this.#counts.get(address) ?? 0;
    // What is refused counts no more, so `#all` bounds the addresses too.
    if (count >= this.#perAddress || this.#total >= this.#all) return this.#tooMany(address, nowMs);
    this.#counts.set(address, count + 1);
    this.#total++;
    return refusal;
  }

  #tooMany(address: string, nowMs: number): CommandError {
    if (!this.#isLogged) this.#logger.warn({ address }, 'too many wrong tokens');
    this.#isLogged = true;
    return new CommandError('Busy', 'too many wrong tokens', {
      next: 'wait a minute; the right one is accepted at any time',
      retryAfterSeconds: Math.ceil((this.#untilMs - nowMs) / 1000),
    });
  }
}
