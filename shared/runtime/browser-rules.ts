/**
 * First checks of every listener that serves browsers. They refuse foreign host names, because a page of another site could
 * reach the listener through a name that resolves to this machine. They also refuse calls from pages of other origins.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { isIP } from 'node:net';

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

/** Splits a Host header into its name, in lower case, and its port. Returns undefined if the header is malformed. */
function hostParts(host: string): { readonly name: string; readonly port: string } | undefined {
  const match = /^(\[[0-9a-f:.]+\]|[a-z0-9.-]+?)\.?(?::(\d{1,5}))?$/i.exec(host);
  return match ? { name: (match[1] ?? '').toLowerCase(), port: match[2] ?? '' } : undefined;
}

/** Whether a Host header names this listener. All IP addresses are accepted, because DNS rebinding needs a host name. */
export function isOwnHost(host: string | undefined, names: readonly string[]): boolean {
  const name = host === undefined ? undefined : hostParts(host)?.name;
  if (name === undefined) return false;
  const isAddress = isIP(name.replace(/^\[|\]$/g, '')) !== 0;
  return isAddress || name === 'localhost' || names.some((own) => own.toLowerCase() === name);
}

/** Returns the port that the browser used. Cookie names contain it, because all ports of a host share their cookies. */
export function portAsked(host: string | undefined, isTls: boolean): string {
  const port = hostParts(host ?? '')?.port ?? '';
  return port === '' ? (isTls ? '443' : '80') : port;
}

const safeMethods: readonly string[] = ['GET', 'HEAD', 'OPTIONS'];

export function isSafe(method: string): boolean {
  return safeMethods.includes(method);
}

/** Whether a call comes from a page that this listener served. */
export function isOwnCall(method: string, headers: IncomingHttpHeaders): boolean {
  const site = headers['sec-fetch-site'];
  if (site !== undefined && site !== 'same-origin' && !(isSafe(method) && site === 'none')) return false;
  // Browsers omit Sec-Fetch-Site on plain HTTP, but they always send Origin with a write.
  return isSafe(method) || site !== undefined || isOwnOrigin(headers.origin, headers.host);
}

export function isJson(headers: IncomingHttpHeaders): boolean {
  return headers['content-type']?.split(';', 1)[0]?.trim().toLowerCase() === 'application/json';
}

function isOwnOrigin(origin: string | undefined, host: string | undefined): boolean {
  if (origin === undefined || host === undefined || !URL.canParse(origin)) return false;
  return (
    new URL(origin).host === host.toLowerCase().replace(/:(?:80|443)$/, '') || origin.endsWith(`//${host}`)
  );
}
