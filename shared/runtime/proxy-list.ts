/** Addresses of the trusted proxies in front of a listener. */
import { BlockList, isIP, isIPv4 } from 'node:net';

interface Range {
  readonly address: string;
  readonly prefix: number;
  readonly family: 'ipv4' | 'ipv6';
}

/** Parses the addresses and CIDR ranges of proxies whose `X-Forwarded-For` header is trusted. Throws if one is invalid. */
export function proxyList(ranges: readonly string[]): BlockList {
  const list = new BlockList();
  for (const text of ranges) {
    const range = parseRange(text);
    if (range === undefined) throw new Error(`--trusted-proxies: ${text} is not an address or CIDR range`);
    list.addSubnet(range.address, range.prefix, range.family);
  }
  return list;
}

/** Whether the text is an IP address or a CIDR range. */
export function isProxyRange(text: string): boolean {
  return parseRange(text) !== undefined;
}

function parseRange(text: string): Range | undefined {
  const [address = '', bits] = text.split('/');
  const family = isIPv4(address) ? 'ipv4' : 'ipv6';
  const most = family === 'ipv4' ? 32 : 128;
  const prefix = bits === undefined ? most : Number(bits);
  const isRange = isIP(address) !== 0 && Number.isInteger(prefix) && prefix >= 0 && prefix <= most;
  return isRange ? { address, prefix, family } : undefined;
}
