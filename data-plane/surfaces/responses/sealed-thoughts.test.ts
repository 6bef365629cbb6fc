import fc from 'fast-check';
import { expect, test } from 'vitest';
import { TenantSecrets } from '../common/tenant-secrets.ts';
import { openThoughts, sealedBytesMax, sealThoughts } from './sealed-thoughts.ts';

const of = (token: string, tenant: string): string => new TenantSecrets(token, 'sealed thoughts').of(tenant);
const key = of('gateway-token-of-the-tests', 'acme');
const sealed = (text: string): string => sealThoughts(text, key) ?? '';

test('thoughts sealed by one gateway open at another, only for the same organisation', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 200 }), (text) => {
      const given = sealed(text);
      expect(openThoughts(given, of('gateway-token-of-the-tests', 'acme'))).toBe(text);
      expect(openThoughts(given, of('gateway-token-of-the-tests', 'birch'))).toBeUndefined();
      expect(openThoughts(given, of('another-token-of-the-tests', 'acme'))).toBeUndefined();
    }),
  );
});

test('the key differs from the prefix caches’ key, and no two seals of a text are alike', () => {
  const salt = new TenantSecrets('gateway-token-of-the-tests', 'cache salt').of('acme');
  expect(openThoughts(sealed('abc'), salt)).toBeUndefined();
  expect(sealed('abc')).not.toBe(sealed('abc'));
});

test('a forged, cut or changed seal does not open, and never throws', () => {
  const given = sealed('thought of something');
  for (let length = 0; length < given.length; length++)
    expect(openThoughts(given.slice(0, length), key)).toBeUndefined();
  fc.assert(
    fc.property(fc.nat(given.length - 5), fc.constantFrom('A', 'b', '9', '_'), (at, other) => {
      const place = at + 4;
      const changed = given.slice(0, place) + other + given.slice(place + 1);
      const opened = openThoughts(changed, key);
      // A changed text may still be decrypted, because its last base64 character can contain bits that belong to no byte.
      expect(opened === undefined || opened === 'thought of something').toBe(true);
      if (Buffer.from(changed.slice(4), 'base64url').equals(Buffer.from(given.slice(4), 'base64url'))) return;
      expect(opened).toBeUndefined();
    }),
  );
  fc.assert(
    fc.property(fc.string(), (text) => {
      expect(openThoughts(text, key)).toBeUndefined();
      expect(openThoughts(`hg1.${text}`, key)).toBeUndefined();
    }),
  );
});

test('thoughts above the bound are not sealed, and a longer seal is not opened', () => {
  expect(openThoughts(sealed('a'.repeat(sealedBytesMax)), key)).toHaveLength(sealedBytesMax);
  expect(sealThoughts('a'.repeat(sealedBytesMax + 1), key)).toBeUndefined();
  expect(sealThoughts('é'.repeat(sealedBytesMax / 2 + 1), key)).toBeUndefined();
  expect(openThoughts(`${sealed('a'.repeat(sealedBytesMax))}AAAA`, key)).toBeUndefined();
});
