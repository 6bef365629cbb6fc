/** A refusal: a message for the client, its cause and a text for the log. Other thrown errors become `InternalError`. */
import { type ErrorEnvelope, type RefusalType, refusalKinds } from '../../schemas/api/refusals.ts';
import { type Cause, type CauseWithType, causes, causeText } from './causes.ts';

export interface ExhaustedLimit {
  readonly kind: 'rate' | 'concurrency';
  readonly subject: string;
  readonly limit: number;
  readonly weight: number;
}

export interface RefusalOptions {
  /** Details of the fault for logs and metrics. They are never shown to the client. */
  readonly detail?: string | undefined;
  /** Number of seconds for the `Retry-After` header. Only the two kinds of 429 refusals set it. */
  readonly retryAfterSeconds?: number;
  /** Id of the refused key, for the decision journal. It is never shown to the client. */
  readonly keyId?: string | undefined;
  /** Limit that had no room, if the request may fit later because time has passed or other requests have ended. */
  readonly exhausted?: ExhaustedLimit;
}

/** Refusal for requests that the service itself cannot accept at present, regardless of the nodes' state. */
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
  /** Cause in words, for logs and metrics. It is never shown to the client. */
  readonly reason: string;
  readonly retryAfterSeconds: number | undefined;
  readonly keyId: string | undefined;
  readonly exhausted: ExhaustedLimit | undefined;

  constructor(cause: Cause, message: string, options: RefusalOptions = {}) {
    // Skip the stack trace, because nobody reads it and creating it costs more than the decision.
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

  /** Error body for the client (specification, Errors). `path` is the request's path without the query string. */
  envelope(path: string): ErrorEnvelope {
    const { code, status } = refusalKinds[this.type];
    return { error: { code, type: this.type, message: this.message, status, path } };
  }
}
