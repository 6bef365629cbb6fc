/**
 * What a listener for browsers refuses before anything else: other names than its own (a page of another site could
 * otherwise reach it by a name that resolves here), and writes that a page of another origin sends.
 */
import type { FastifyRequest } from 'fastify';
import { CommandError } from '../core/command-error.ts';

const loopbackNames: readonly string[] = ['localhost', '127.0.0.1', '[::1]'];

export const securityHeaders: Readonly<Record<string, string>> = {
  'content-security-policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "connect-src 'self'",
    "img-src 'self' data:",
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; '),
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), geolocation=(), microphone=(), payment=(), usb=()',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
};

/** The name and the port of a Host header, in lower case; undefined where it is none. */
function hostParts(host: string): { readonly name: string; readonly port: string } | undefined {
  const match = /^(\[[0-9a-f:.]+\]|[a-z0-9.-]+?)\.?(?::(\d{1,5}))?$/i.exec(host);
  return match ? { name: (match[1] ?? '').toLowerCase(), port: match[2] ?? '' } : undefined;
}

/** Whether a Host header names this console. */
export function isOwnHost(host: string | undefined, names: readonly string[]): boolean {
  const name = host === undefined ? undefined : hostParts(host)?.name;
  if (name === undefined) return false;
  return loopbackNames.includes(name) || names.some((own) => own.toLowerCase() === name);
}

/** The port that the browser asked for: cookies of one name are shared by all ports of a host. */
export function portAsked(host: string | undefined, isTls: boolean): string {
  const port = hostParts(host ?? '')?.port ?? '';
  return port === '' ? (isTls ? '443' : '80') : port;
}

const safeMethods: readonly string[] = ['GET', 'HEAD', 'OPTIONS'];

/** Why a call of the API cannot come from the console's own page; undefined where it can. */
export function foreignCall({ method, headers }: FastifyRequest): CommandError | undefined {
  const isSafe = safeMethods.includes(method);
  const site = headers['sec-fetch-site'];
  if (site !== undefined && site !== 'same-origin' && !(isSafe && site === 'none'))
    return new CommandError('Forbidden', 'only the console itself may call this');
  if (isSafe) return undefined;
  // Browsers leave Sec-Fetch-Site out on plain HTTP, but never Origin on a write.
  if (site === undefined && !isOwnOrigin(headers.origin, headers.host))
    return new CommandError('Forbidden', 'only the console itself may call this');
  const type = headers['content-type']?.split(';', 1)[0]?.trim().toLowerCase();
  return type === 'application/json'
    ? undefined
    : new CommandError('InvalidCommand', 'a write needs content-type: application/json');
}

function isOwnOrigin(origin: string | undefined, host: string | undefined): boolean {
  if (origin === undefined || host === undefined || !URL.canParse(origin)) return false;
  return (
    new URL(origin).host === host.toLowerCase().replace(/:(?:80|443)$/, '') || origin.endsWith(`//${host}`)
  );
}
