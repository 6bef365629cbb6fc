/** Limits wrong secrets per minute, by address and in total. The right one always works, because callers share addresses. */
import type { FastifyRequest } from 'fastify';
import { peerPrefix } from '../../shared/runtime/connections.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { RateLimitedLine } from '../../shared/runtime/rate-limited-line.ts';
import { CommandError } from '../core/command-error.ts';
import { MinuteLimit } from '../core/minute-limit.ts';

interface AttemptLimits {
  readonly perAddress: number;
  readonly all: number;
  readonly logger: Logger;
  /** Monotonic clock in ms. */
  readonly now?: () => number;
}

export class AttemptLimit {
  readonly #perAddress: number;
  readonly #all: number;
  readonly #wrong: MinuteLimit;
  readonly #tooMany: RateLimitedLine;
  #address = '';

  constructor({ perAddress, all, logger, now }: AttemptLimits) {
    this.#perAddress = perAddress;
    this.#all = all;
    this.#wrong = new MinuteLimit(now);
    this.#tooMany = new RateLimitedLine(() =>
      logger.warn({ address: this.#address }, 'too many wrong tokens'),
    );
  }

  /** Counts a wrong secret. Returns `refusal`, or a different error if there were too many. */
  refuse({ raw }: FastifyRequest, refusal: CommandError): CommandError {
    const address = peerPrefix(raw.socket.remoteAddress);
    const retryAfterSeconds = this.#wrong.tryAcquire({
      [`address ${address}`]: this.#perAddress,
      all: this.#all,
    });
    if (retryAfterSeconds === undefined) return refusal;
    this.#address = address;
    this.#tooMany.add('tokens');
    return new CommandError('Busy', 'too many wrong tokens', {
      next: 'wait a minute, or use the right token, which is always accepted',
      retryAfterSeconds,
    });
  }
}
