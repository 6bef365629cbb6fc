/** What can go wrong between the CLI and a control plane, in words that name the next step. */
import { CliError } from './errors.ts';

/** Codes of Node and OpenSSL for a certificate that proves nothing. */
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
    return new CliError(`no control plane answers at ${admin}`, {
      ...unreachable,
      next: 'start one (`npm start`), or name another with --admin or HEADGATE_ADMIN',
    });
  if (certificateCode.test(code))
    return new CliError(`the certificate shown at ${admin} is not trusted`, {
      ...unreachable,
      next: 'name the PEM file of its authority in NODE_EXTRA_CA_CERTS, or renew the certificate',
    });
  if (code.startsWith('ERR_SSL_'))
    return new CliError(`no TLS is spoken at ${admin}`, {
      ...unreachable,
      next: 'begin the address with http://, or check --admin or HEADGATE_ADMIN',
    });
  return new CliError(`the control plane at ${admin} did not answer to the end`, {
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
    ? 'no answer in time'
    : 'the connection broke';
}
