/** Error of a failed admin API call: the control plane refused it, the response was invalid, or the network failed. */

export interface AdminErrorOptions {
  /** Error type, assigned by the control plane or by this client. Types are stable, so that scripts can rely on them. */
  readonly type: string;
  /** HTTP status of a refusal, or undefined if there was no valid response. */
  readonly status?: number;
  readonly why?: readonly string[];
  readonly next?: string;
  readonly cause?: unknown;
}

export class AdminError extends Error {
  override readonly name = 'AdminError';
  readonly type: string;
  readonly status: number | undefined;
  readonly why: readonly string[];
  readonly next: string | undefined;

  constructor(message: string, options: AdminErrorOptions) {
    super(message, { cause: options.cause });
    this.type = options.type;
    this.status = options.status;
    this.why = options.why ?? [];
    this.next = options.next;
  }

  /** Whether the control plane or its log could not be reached, so that the same call may succeed later. */
  get isUnreachable(): boolean {
    return unreachableTypes.has(this.type);
  }
}

const unreachableTypes = new Set(['OutcomeUnknown', 'LogUnavailable', 'Unreachable', 'ConnectionLost']);

/** Error codes of connections that were never established, so that nothing was sent. */
const unsentCodes = new Set([
  ...['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH'],
  'UND_ERR_CONNECT_TIMEOUT',
]);

/** Matches the error codes of Node and OpenSSL that mean an untrusted certificate. */
const certificateCode = /CERT|UNABLE_TO_(?:GET|VERIFY)/;

/** Converts a network error to an `AdminError` that says what to do. Returns other errors unchanged. */
export function toAdminError(error: unknown, admin: string, isInterrupted: boolean): unknown {
  if (error instanceof AdminError || !isNetworkFailure(error)) return error;
  if (isInterrupted) return new AdminError('interrupted', { type: 'Interrupted' });
  return connectionError(error, admin);
}

function isNetworkFailure(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return error.cause instanceof Error || error.name === 'TimeoutError' || error.name === 'AbortError';
}

function connectionError(cause: unknown, admin: string): AdminError {
  const code = networkCode(cause);
  const failure = (type: string, message: string, next: string): AdminError =>
    new AdminError(message, { type, why: [code], next, cause });
  if (unsentCodes.has(code))
    return failure(
      'Unreachable',
      `no control plane is reachable at ${admin}`,
      'start one (`npm start`), or set another address with --admin or HEADGATE_ADMIN',
    );
  if (certificateCode.test(code))
    return failure(
      'Unreachable',
      `the TLS certificate of ${admin} is not trusted`,
      'set NODE_EXTRA_CA_CERTS to the PEM file of its certificate authority, or renew the certificate',
    );
  if (code.startsWith('ERR_SSL_'))
    return failure(
      'Unreachable',
      `${admin} does not use TLS`,
      'use an http:// address, or check --admin or HEADGATE_ADMIN',
    );
  return failure('ConnectionLost', `the connection to the control plane at ${admin} was lost`, 'try again');
}

/** Returns the error code that the system or undici set. */
function networkCode(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  if (cause instanceof AggregateError && cause.errors.length > 0) return networkCode(cause.errors[0]);
  if (cause instanceof Error && 'code' in cause && typeof cause.code === 'string') return cause.code;
  return cause instanceof Error && cause.name === 'TimeoutError'
    ? 'no response before the deadline'
    : 'connection closed';
}
