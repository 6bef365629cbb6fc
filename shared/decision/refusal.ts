/**
 * A refusal: what the client reads, its cause, and apart from both the text for the log.
 * Anything a phase throws that is not a Refusal is a fault of this program and becomes InternalError.
 */
import { type ErrorEnvelope, type RefusalType, refusalKinds } from '../../schemas/api/refusals.ts';
import { type Cause, type CauseOf, causes, textOf } from './causes.ts';

/** Which limit had no room for a request. */
export interface Exhausted {
  readonly kind: 'rate' | 'concurrency';
  readonly subject: string;
  readonly limit: number;
  readonly weight: number;
}

export interface RefusalOptions {
  /** What is known of the fault, for our own log and metrics; never shown to the client. */
  readonly detail?: string | undefined;
  /** Seconds for `Retry-After`; only the two 429 refusals carry it. */
  readonly retryAfterSeconds?: number;
  /** Id of the key that was refused, for the decision journal; never shown to the client. */
  readonly keyId?: string | undefined;
  /** The limit that time or other requests free again. */
  readonly exhausted?: Exhausted;
}

/** The service itself is in no state to take the request, whatever the nodes do. */
export function cannotTakeNow(cause: CauseOf<'InferenceUnavailableError'>): Refusal {
  return new Refusal(
    cause,
    'The service cannot take this request now. Try again with exponential backoff, starting around one second.',
  );
}

export class Refusal extends Error {
  override readonly name = 'Refusal';
  override readonly cause: Cause;
  readonly type: RefusalType;
  /** Its cause in words, for the log and for metrics; never shown to the client. */
  readonly reason: string;
  readonly retryAfterSeconds: number | undefined;
  readonly keyId: string | undefined;
  readonly exhausted: Exhausted | undefined;

  constructor(cause: Cause, message: string, options: RefusalOptions = {}) {
    // Nobody reads where it was made, and to find that out costs more than the decision.
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 0;
    super(message);
    Error.stackTraceLimit = stackTraceLimit;
    this.cause = cause;
    this.type = causes[cause].type;
    this.reason = textOf(cause, options.detail);
    this.retryAfterSeconds = options.retryAfterSeconds;
    this.keyId = options.keyId;
    this.exhausted = options.exhausted;
  }

  get status(): number {
    return refusalKinds[this.type].status;
  }

  /** The one error envelope (Errors). `path` is the request's path without its query. */
  envelope(path: string): ErrorEnvelope {
    const { code, status } = refusalKinds[this.type];
    return { error: { code, type: this.type, message: this.message, status, path } };
  }
}
