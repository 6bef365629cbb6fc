/**
 * Reason why an admin command was not carried out. This is the only list of error types and statuses. Anything else that is
 * thrown is a bug and becomes `InternalError`. Messages and details must never contain the value of a key or a token.
 */

export const commandErrorKinds = {
  Unauthorized: { status: 401, code: 'UNAUTHENTICATED' },
  Forbidden: { status: 403, code: 'PERMISSION_DENIED' },
  InvalidCommand: { status: 400, code: 'INVALID_ARGUMENT' },
  NotFound: { status: 404, code: 'NOT_FOUND' },
  /** The resource already exists, the Idempotency-Key belongs to another command, or others changed the state too often. */
  Conflict: { status: 409, code: 'CONFLICT' },
  /** `If-Match` contains a position that is no longer current. */
  PositionMoved: { status: 409, code: 'CONFLICT' },
  /** A guard refused the command, which is allowed only with `force`. */
  GuardRefused: { status: 409, code: 'FAILED_PRECONDITION' },
  CommandTooLarge: { status: 413, code: 'OUT_OF_RANGE' },
  /** The caller has reached a limit. The header `retry-after` says when to try again. */
  TooManyRequests: { status: 429, code: 'RESOURCE_EXHAUSTED' },
  /** Another operation is in progress, or the queue is full. */
  Busy: { status: 503, code: 'UNAVAILABLE' },
  OutcomeUnknown: { status: 503, code: 'UNAVAILABLE' },
  LogUnavailable: { status: 503, code: 'UNAVAILABLE' },
  InternalError: { status: 500, code: 'INTERNAL' },
} as const;

export type CommandErrorType = keyof typeof commandErrorKinds;

export interface CommandErrorDetail {
  /** JSON path in the body or the parameters, such as `fleet.tiers[0].id`. */
  readonly path: string;
  readonly message: string;
}

export interface CommandErrorOptions {
  /** Next step for the user. */
  readonly next?: string;
  readonly details?: readonly CommandErrorDetail[];
  /** Seconds to wait before trying again. If absent, the error's type determines the time. */
  readonly retryAfterSeconds?: number;
  readonly cause?: unknown;
}

export class CommandError extends Error {
  override readonly name = 'CommandError';
  readonly type: CommandErrorType;
  readonly next: string | undefined;
  readonly details: readonly CommandErrorDetail[] | undefined;
  readonly retryAfterSeconds: number | undefined;

  constructor(type: CommandErrorType, message: string, options: CommandErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.type = type;
    this.next = options.next;
    this.details = options.details;
    this.retryAfterSeconds = options.retryAfterSeconds;
  }

  get status(): number {
    return commandErrorKinds[this.type].status;
  }

  /** Returns the error as the body of an admin API response. `path` is the request's path without its query. */
  envelope(path: string): { readonly error: Readonly<Record<string, unknown>> } {
    const { code, status } = commandErrorKinds[this.type];
    const { type, message, next, details } = this;
    return {
      error: { type, code, message, status, path, ...(next && { next }), ...(details && { details }) },
    };
  }
}
