/**
 * Determines a client's address and the network under which the client is counted: an IPv4 address, or the first 64 bits of
 * an IPv6 address, which is the smallest block that a customer gets. An IPv4 address inside an IPv6 address counts as IPv4.
 */
import { type BlockList, isIP, isIPv4 } from 'node:net';
import type { Exchange } from '../http/exchange.ts';

/** Maximum number of addresses that are read from `X-Forwarded-For`. Real chains of proxies are shorter. */
const hopsMax = 32;

export function addressOf({ peer, head }: Exchange, proxies: BlockList): string {
  const forwarded = head.headers['x-forwarded-for'];
  const text = Array.isArray(forwarded) ? forwarded.join(',') : forwarded;
  return clientAddress(peer, text, proxies);
}

/** Finds the client's address: goes back through the forwarded addresses until one is not that of a trusted proxy. */
export function clientAddress(
  peer: string | undefined,
  forwardedFor: string | undefined,
  proxies: BlockList,
): string {
  let address = unmapped(peer ?? '');
  const hops = (forwardedFor ?? '').split(',').slice(-hopsMax).map(hopAddress);
  while (isTrusted(proxies, address)) {
    const next = hops.pop();
    if (next === undefined || isIP(next) === 0) break;
    address = next;
  }
  return address;
}

function hopAddress(text: string): string {
  const hop = text.trim();
  const bracketed = /^\[([^\]]+)\](?::\d+)?$/.exec(hop)?.[1];
  return unmapped(bracketed ?? (/^[\d.]+:\d+$/.test(hop) ? hop.slice(0, hop.indexOf(':')) : hop));
}

export function isProxy(peer: string | undefined, proxies: BlockList): boolean {
  return isTrusted(proxies, unmapped(peer ?? ''));
}

function isTrusted(proxies: BlockList, address: string): boolean {
  const version = isIP(address);
  return version !== 0 && proxies.check(address, version === 4 ? 'ipv4' : 'ipv6');
}

function unmapped(address: string): string {
  return /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1] ?? address;
}

/** Part of an address that identifies its network, or `unknown` if the address is invalid. */
export function networkPrefix(address: string): string {
  if (isIPv4(address)) return address;
  const groups = parseGroups(address);
  if (groups === undefined) return 'unknown';
  return embeddedIPv4(groups) ?? groups.slice(0, 4).join(':');
}

/** The eight 16-bit numbers of an IPv6 address, or undefined if the address is invalid. */
function parseGroups(address: string): number[] | undefined {
  const plain = address.split('%', 1)[0] ?? '';
  if (isIP(plain) !== 6) return undefined;
  const dotted = plain.replace(/(\d+)\.(\d+)\.(\d+)\.(\d+)$/, (_all, a, b, c, d) =>
    [a, c].map((high, at) => (Number(high) * 256 + Number(at === 0 ? b : d)).toString(16)).join(':'),
  );
  const [head = '', tail] = dotted.split('::');
  const numbers = (part: string): number[] =>
    part === '' ? [] : part.split(':').map((group) => Number.parseInt(group, 16));
  const first = numbers(head);
  const last = numbers(tail ?? '');
  return [...first, ...Array.from({ length: 8 - first.length - last.length }, () => 0), ...last];
}

/** IPv4 address inside a NAT64 (64:ff9b::/96), 6to4 (2002::/16), Teredo (2001::/32) or mapped address, if any. */
function embeddedIPv4(groups: readonly number[]): string | undefined {
  const [a = 0, b = 0, c = 0, d, e, f, g = 0, h = 0] = groups;
  const isZero = (...parts: (number | undefined)[]): boolean => parts.every((part) => part === 0);
  if (a === 0x64 && b === 0xff9b && isZero(c, d, e, f)) return formatDotted(g, h);
  if (a === 0x2002) return formatDotted(b, c);
  if (a === 0x2001 && b === 0) return formatDotted(g ^ 0xffff, h ^ 0xffff);
  if (isZero(a, b, c, d, e) && f === 0xffff) return formatDotted(g, h);
  return undefined;
}

function formatDotted(high: number, low: number): string {
  return [high >> 8, high & 255, low >> 8, low & 255].join('.');
}
