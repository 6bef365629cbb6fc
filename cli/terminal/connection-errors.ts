/** Maps network failures between the CLI and a control plane to errors that name the next step. */
import { CliError } from './errors.ts';

/** Codes of Node and OpenSSL for a certificate that is not trusted. */
const certificateCode = /CERT|UNABLE_TO_(?:GET|VERIFY)/;

export function isNetworkFailure(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return error.cause instanceof Error || error.name === 'TimeoutError' || error.name === 'AbortError';
}

/** A failure of the connection to the control plane at `admin`. */
export function connectionError(error: unknown, admin: string): CliError {
  const code = networkCode(error);
  const unreachable = { type: 'Unreachable', exitCode: 7, why: code } as const;
  if (code === 'ECONNREFUSED' || code === 'ENOTFOUND' || code === 'EAI_AGAIN')
    return new CliError(`no control plane is reachable at ${admin}`, {
      ...unreachable,
      next: 'start one (`npm start`), or set another address with --admin or HEADGATE_ADMIN',
    });
  if (certificateCode.test(code))
    return new CliError(`the TLS certificate of ${admin} is not trusted`, {
      ...unreachable,
      next: 'set NODE_EXTRA_CA_CERTS to the PEM file of its certificate authority, or renew the certificate',
    });
  if (code.startsWith('ERR_SSL_'))
    return new CliError(`${admin} does not use TLS`, {
      ...unreachable,
      next: 'use an http:// address, or check --admin or HEADGATE_ADMIN',
    });
  return new CliError(`the connection to the control plane at ${admin} was lost`, {
    type: 'ConnectionLost',
    exitCode: 7,
    why: code,
    next: 'try again',
  });
}

function networkCode(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  if (cause instanceof AggregateError && cause.errors.length > 0) return networkCode(cause.errors[0]);
  if (cause instanceof Error && 'code' in cause && typeof cause.code === 'string') return cause.code;
  return cause instanceof Error && cause.name === 'TimeoutError'
    ? 'no response before the deadline'
    : 'connection closed';
}
