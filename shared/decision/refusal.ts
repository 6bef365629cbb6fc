/** A refusal: the client's message, its cause and a text for the log. Anything else thrown becomes InternalError. */
import { type ErrorEnvelope, type RefusalType, refusalKinds } from '../../schemas/api/refusals.ts';
import { type Cause, type CauseWithType, causes, causeText } from './causes.ts';

/** Limit that had no room for a request. */
export interface Exhausted {
  readonly kind: 'rate' | 'concurrency';
  readonly subject: string;
  readonly limit: number;
  readonly weight: number;
}

export interface RefusalOptions {
  /** Details of the fault for our log and metrics. Never shown to the client. */
  readonly detail?: string | undefined;
  /** Seconds for `Retry-After`. Only the two 429 refusals contain it. */
  readonly retryAfterSeconds?: number;
  /** Id of the refused key, for the decision journal. Never shown to the client. */
  readonly keyId?: string | undefined;
  /** Limit whose room time or other requests will free. */
  readonly exhausted?: Exhausted;
}

/** Refuses because the service itself cannot take the request, whatever the state of its nodes. */
export function cannotTakeNow(cause: CauseWithType<'InferenceUnavailableError'>): Refusal {
  return new Refusal(
    cause,
    'The service cannot take this request now. Try again with exponential backoff, starting around one second.',
  );
}

export class Refusal extends Error {
  override readonly name = 'Refusal';
  override readonly cause: Cause;
  readonly type: RefusalType;
  /** Cause in words, for logs and metrics. Never shown to the client. */
  readonly reason: string;
  readonly retryAfterSeconds: number | undefined;
  readonly keyId: string | undefined;
  readonly exhausted: Exhausted | undefined;

  constructor(cause: Cause, message: string, options: RefusalOptions = {}) {
    // No stack trace, because nobody reads it and creating it costs more than the decision.
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 0;
    super(message);
    Error.stackTraceLimit = stackTraceLimit;
    this.cause = cause;
    this.type = causes[cause].type;
    this.reason = causeText(cause, options.detail);
    this.retryAfterSeconds = options.retryAfterSeconds;
    this.keyId = options.keyId;
    this.exhausted = options.exhausted;
  }

  get status(): number {
    return refusalKinds[this.type].status;
  }

  /** The error envelope (specification, Errors). `path` is the request's path without the query. */
  envelope(path: string): ErrorEnvelope {
    const { code, status } = refusalKinds[this.type];
    return { error: { code, type: this.type, message: this.message, status, path } };
  }
}
