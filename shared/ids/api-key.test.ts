/**
 * Tests the format and checksum of API keys: which typing errors the checksum detects, and that all characters are equally
 * likely.
 */
import { createHash, randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { hashKey, mintId, mintKey, mintNodeToken, parseKey, randomText } from './api-key.ts';

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
/** Keys made from bytes that fast-check generates. A byte that stands for no character is replaced with a further byte. */
const keys = fc
  .infiniteStream(fc.nat(255))
  .map((stream) =>
    mintKey((bytes) => Uint8Array.from({ length: bytes }, () => stream.next().value as number)),
  );

test('Resources, API key: a value has the prefix and a body of fixed length', () => {
  fc.assert(
    fc.property(keys, (key) => {
      expect(key).toMatch(/^hg_[0-9A-Za-z]{40}$/);
      expect(parseKey(key)).toBe(key);
    }),
  );
});

test('the checksum is the CRC-32 of everything before it, in base62', () => {
  expect(mintKey((bytes) => new Uint8Array(bytes))).toBe(
    `hg_${'0'.repeat(34)}${base62Crc(`hg_${'0'.repeat(34)}`)}`,
  );
});

test('Authentication 3: one mistyped character fails the checksum', () => {
  fc.assert(
    fc.property(keys, fc.nat(42), fc.constantFrom(...alphabet), (key, at, other) => {
      fc.pre(key.charAt(at) !== other);
      expect(parseKey(key.slice(0, at) + other + key.slice(at + 1))).toBeUndefined();
    }),
    { numRuns: 2000 },
  );
});

test('Authentication 3: swapping two neighbouring characters fails the checksum', () => {
  fc.assert(
    fc.property(keys, fc.integer({ min: 3, max: 41 }), (key, at) => {
      fc.pre(key.charAt(at) !== key.charAt(at + 1));
      const swapped = key.slice(0, at) + key.charAt(at + 1) + key.charAt(at) + key.slice(at + 2);
      expect(parseKey(swapped)).toBeUndefined();
    }),
    { numRuns: 2000 },
  );
});

test('Authentication 3: a truncated or lengthened key fails', () => {
  fc.assert(
    fc.property(keys, fc.nat(42), fc.constantFrom(...alphabet, ' ', '\n'), (key, length, more) => {
      expect(parseKey(key.slice(0, length))).toBeUndefined();
      expect(parseKey(key.slice(43 - length))).toBeUndefined();
      expect(parseKey(key + more)).toBeUndefined();
      expect(parseKey(more + key)).toBeUndefined();
    }),
  );
});

test('no text makes the parser throw', () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string(),
        fc.string().map((text) => `hg_${text}`),
      ),
      (text) => {
        expect(parseKey(text)).toBeUndefined();
      },
    ),
  );
});

test('a key is stored as the SHA-256 of its text', () => {
  const key = mintKey(randomBytes);
  expect(hashKey(key)).toEqual(createHash('sha256').update(key, 'ascii').digest());
});

test('every character of an alphabet is equally likely, because surplus byte values are redrawn', () => {
  let next = 256;
  const descending = (count: number) => Uint8Array.from({ length: count }, () => --next);
  const text = randomText(descending, alphabet, 248);
  // The bytes 248 to 255 are drawn again, and each character stands for four of the bytes 0 to 247.
  expect(text.charAt(0)).toBe('z');
  expect(text).toBe([...alphabet].reverse().join('').repeat(4));
});

test('ids and tokens have their required form', () => {
  expect(mintId(randomBytes, 'key')).toMatch(/^key-[0-9a-z]{16}$/);
  expect(mintNodeToken(randomBytes)).toMatch(/^ngt_[A-Za-z0-9_-]{43}$/);
});

/** Computes the checksum bit by bit, to check the library's table with code that uses no table. */
function base62Crc(text: string): string {
  let crc = 0xffffffff;
  for (const byte of Buffer.from(text)) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  }
  let rest = (crc ^ 0xffffffff) >>> 0;
  let digits = '';
  for (let place = 0; place < 6; place++) {
    digits = alphabet.charAt(rest % 62) + digits;
    rest = Math.floor(rest / 62);
  }
  return digits;
}
