/**
 * The only list of refusals that a gateway can send. It states the type, status, coarse code and retry policy of each
 * (specification, Errors). The body of a refusal has one member, `error`, which contains code, type, message, status and
 * path.
 */

/** Whether and how a client may retry. For `retry-after`, the response states the number of seconds to wait. */
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
  /** The host, path or method is unknown. The specification's ten types do not include this one. */
  NotFoundError: { status: 404, code: 'NOT_FOUND', retry: 'never' },
  /** The body or header block exceeds the listener's limit. The specification's ten types do not include this one. */
  PayloadTooLargeError: { status: 413, code: 'INVALID_ARGUMENT', retry: 'never' },
  /** The gateway itself has failed. The specification's ten types do not include this one. */
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
