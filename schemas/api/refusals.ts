/**
 * The registry of every refusal a gateway can answer (Errors). The only list: type, status, coarse code, retryable.
 * "Envelope": one object with one member `error` of code, type, message, status, path.
 */

/** How a client may try again. `retry-after`: the answer carries the seconds. */
export type Retry = 'never' | 'backoff' | 'retry-after';

interface RefusalKind {
  readonly status: number;
  readonly code: string;
  readonly retry: Retry;
}

export const refusalKinds = {
  Unauthorized: { status: 401, code: 'UNAUTHENTICATED', retry: 'never' },
  UnsupportedShapeError: { status: 400, code: 'INVALID_ARGUMENT', retry: 'never' },
  InferenceUnavailableError: { status: 503, code: 'UNAVAILABLE', retry: 'backoff' },
  ModelNotInPlanError: { status: 403, code: 'PERMISSION_DENIED', retry: 'never' },
  DedicatedOnlyModelError: { status: 404, code: 'NOT_FOUND', retry: 'never' },
  TargetNotServingError: { status: 404, code: 'NOT_FOUND', retry: 'never' },
  InferenceUpsellError: { status: 409, code: 'QUOTA_EXHAUSTED', retry: 'never' },
  ContextWindowExceededError: { status: 413, code: 'OUT_OF_RANGE', retry: 'never' },
  InferenceRateLimitedError: { status: 429, code: 'RESOURCE_EXHAUSTED', retry: 'retry-after' },
  InferenceConcurrencyLimitedError: { status: 429, code: 'RESOURCE_EXHAUSTED', retry: 'retry-after' },
  /** Beyond the specification's ten: unknown host, path or method. */
  NotFoundError: { status: 404, code: 'NOT_FOUND', retry: 'never' },
  /** Beyond the ten: the body or the header block is larger than the listener takes. */
  PayloadTooLargeError: { status: 413, code: 'INVALID_ARGUMENT', retry: 'never' },
  /** Beyond the ten: an internal fault. */
  InternalError: { status: 500, code: 'INTERNAL', retry: 'backoff' },
} as const satisfies Record<string, RefusalKind>;

export type RefusalType = keyof typeof refusalKinds;

export interface ErrorEnvelope {
  readonly error: {
    readonly code: string;
    readonly type: RefusalType;
    readonly message: string;
    readonly status: number;
    readonly path: string;
  };
}
