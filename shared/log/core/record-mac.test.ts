/** Tests that the MAC of a record equals a plain HMAC-SHA256 of the standard library. */
import { createHmac } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { RecordMac } from './record-mac.ts';

test('a record’s signature is the HMAC-SHA256 of topic and value, for tokens of every length', () => {
  const text = fc.string({ minLength: 1, maxLength: 200, unit: 'grapheme' });
  fc.assert(
    fc.property(text, text, fc.uint8Array({ maxLength: 2000 }), (token, topic, value) => {
      const wanted = createHmac('sha256', token).update(`${topic}\n`).update(value).digest();
      const mac = new RecordMac(topic, 'another token', token);
      expect(new RecordMac(topic, token).of(value)).toEqual(wanted);
      expect(mac.accepts(value, wanted)).toBe(true);
      expect(mac.accepts(Buffer.concat([value, Buffer.of(0)]), wanted)).toBe(false);
      expect(mac.accepts(value, wanted.subarray(1))).toBe(false);
    }),
  );
});
