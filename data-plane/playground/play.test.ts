/** Tests without a network how visitors are identified: addresses, cookies and subjects. */
import { expect, test } from 'vitest';
import { proxyList } from '../../shared/runtime/proxy-list.ts';
import { clientAddress, networkPrefix } from './network.ts';
import { Visitors } from './visitors.ts';

test.each([
  ['203.0.113.7', '203.0.113.7'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2'],
  ['2001:db8:1:2::', '2001:db8:1:2'],
  ['fe80::1%eth0', 'fe80:0:0:0'],
  ['::ffff:cb00:7107', '203.0.113.7'],
  ['64:ff9b::203.0.113.7', '203.0.113.7'],
  ['64:ff9b::cb00:7107', '203.0.113.7'],
  ['2002:cb00:7107:1::1', '203.0.113.7'],
  ['2001:0:4136:e378:8000:63bf:34ff:8ef8', '203.0.113.7'],
  ['nonsense', 'unknown'],
  ['', 'unknown'],
])('the network of %s is that of %s', (address, same) => {
  const expected = same.includes(':')
    ? same
        .split(':')
        .map((group) => Number.parseInt(group, 16))
        .join(':')
    : same;
  expect(networkPrefix(address)).toBe(expected);
});

test('forwarded addresses are trusted only from trusted proxies, from right to left', () => {
  const none = proxyList([]);
  const proxies = proxyList(['127.0.0.1', '10.0.0.0/8', 'fd00::/8']);
  const from = (peer: string, header?: string, list = proxies): string => clientAddress(peer, header, list);
  expect(from('127.0.0.1', '203.0.113.7', none)).toBe('127.0.0.1');
  expect(from('198.51.100.1', '203.0.113.7')).toBe('198.51.100.1');
  expect(from('127.0.0.1')).toBe('127.0.0.1');
  expect(from('::ffff:127.0.0.1', '203.0.113.7')).toBe('203.0.113.7');
  expect(from('127.0.0.1', '192.0.2.1, 203.0.113.7, 10.1.2.3')).toBe('203.0.113.7');
  expect(from('127.0.0.1', '192.0.2.1, nonsense')).toBe('127.0.0.1');
  expect(from('127.0.0.1', '[2001:db8::1]:4711, fd00::2')).toBe('2001:db8::1');
  expect(from('127.0.0.1', '203.0.113.7:4711')).toBe('203.0.113.7');
  for (const wrong of ['10.0.0.0/33', 'localhost', '::/129', ''])
    expect(() => proxyList([wrong])).toThrow('--trusted-proxies');
});

const nowMs = Date.UTC(2026, 10, 22, 12);
const dayMs = 24 * 3600_000;

test('a cookie is the same visitor on every gateway with the token, and is invalid elsewhere or once expired', () => {
  const [one, two, foreign] = [new Visitors('token-a'), new Visitors('token-a'), new Visitors('token-b')];
  const { cookie, id } = one.mint(nowMs);
  expect(two.open(cookie, nowMs)).toBe(id);
  expect(two.subject(id, nowMs)).toBe(one.subject(id, nowMs));
  expect(foreign.open(cookie, nowMs)).toBeUndefined();
  expect(one.open(cookie, nowMs + 34 * dayMs)).toBe(id);
  expect(one.open(cookie, nowMs + 35 * dayMs)).toBeUndefined();
  expect(one.open(cookie, nowMs - dayMs)).toBeUndefined();
  for (let at = 0; at < cookie.length - 1; at++) {
    const changed = cookie.slice(0, at) + (cookie[at] === 'A' ? 'B' : 'A') + cookie.slice(at + 1);
    expect(one.open(changed, nowMs)).toBeUndefined();
  }
});

test('Limits 4, Errors 7: subjects change with their period and cannot be linked', () => {
  const visitors = new Visitors('token-a');
  const { id } = visitors.mint(nowMs);
  const month = visitors.subject(id, nowMs);
  expect(month).toMatch(/^v-[0-9a-f]{32}$/);
  expect(visitors.subject(id, Date.UTC(2026, 10, 30, 23, 59))).toBe(month);
  expect(visitors.subject(id, Date.UTC(2026, 11, 1))).not.toBe(month);
  const day = visitors.network('203.0.113.7', nowMs);
  expect(day).toMatch(/^n-[0-9a-f]{12}$/);
  expect(visitors.network('::ffff:cb00:7107', nowMs)).toBe(day);
  expect(visitors.network('203.0.113.8', nowMs)).not.toBe(day);
  expect(visitors.network('203.0.113.7', nowMs + dayMs)).not.toBe(day);
  expect(visitors.network('203.0.113.7', nowMs)).toBe(day);
});
