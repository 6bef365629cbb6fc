/** Tests signing keys: which files contain a usable key, which errors other files cause, and which signatures are valid. */
import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { folderOfFile } from '../../../test/support/folders.ts';
import { loadSigner, SigningKeyUnusable, verify } from './signing.ts';

const folder = folderOfFile('key');

function fileOf(name: string, text: string | Buffer): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}
function pem(key: KeyObject, passphrase?: string): string | Buffer {
  if (key.type === 'public') return key.export({ type: 'spki', format: 'pem' });
  return key.export({
    type: 'pkcs8',
    format: 'pem',
    ...(passphrase ? { cipher: 'aes-256-cbc', passphrase } : {}),
  });
}

const { privateKey, publicKey } = generateKeyPairSync('ed25519');
const signer = loadSigner(fileOf('good.pem', pem(privateKey)));
const raw = Buffer.from('record');

test('a signature by a signer is verified with its public key', () => {
  const signature = signer.sign(raw);
  expect(signature).toHaveLength(64);
  expect(signer.publicKey).toBe(publicKey.export({ type: 'spki', format: 'der' }).toString('base64'));
  expect(verify([signer.publicKey], raw, signature)).toBe(true);
});

test('a signature by any one of the signers is enough', () => {
  const other = loadSigner(fileOf('other.pem', pem(generateKeyPairSync('ed25519').privateKey)));
  expect(verify([other.publicKey, signer.publicKey], raw, signer.sign(raw))).toBe(true);
  expect(verify([other.publicKey], raw, signer.sign(raw))).toBe(false);
});

const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 });

function spki(key: KeyObject): string {
  return key.export({ type: 'spki', format: 'der' }).toString('base64');
}
/** An RSA key whose signatures are as long as Ed25519's. */
const shortRsa = generateKeyPairSync('rsa', { modulusLength: 512 });
const x25519 = generateKeyPairSync('x25519');

test.each([
  ['no signature', [signer.publicKey], raw, null],
  ['an empty one', [signer.publicKey], raw, Buffer.alloc(0)],
  ['one of zeros', [signer.publicKey], raw, Buffer.alloc(64)],
  ['an overlong signature', [signer.publicKey], raw, Buffer.concat([signer.sign(raw), Buffer.alloc(1)])],
  ['one over other bytes', [signer.publicKey], Buffer.from('recorD'), signer.sign(raw)],
  ['one when nobody may sign', [], raw, signer.sign(raw)],
  ['one by an unreadable key', ['not a key', ''], raw, signer.sign(raw)],
  ['one by a key of another type', [spki(shortRsa.publicKey)], raw, sign(null, raw, shortRsa.privateKey)],
  ['one by a key that cannot sign', [spki(x25519.publicKey)], raw, signer.sign(raw)],
])('%s is not accepted as a signature', (_, signers, bytes, signature) => {
  expect(verify(signers, bytes, signature)).toBe(false);
});

test('many other keys do not displace a valid one', () => {
  const signature = signer.sign(raw);
  for (let n = 0; n < 200; n++) expect(verify([`junk-${n}`], raw, signature)).toBe(false);
  expect(verify([signer.publicKey], raw, signature)).toBe(true);
});

test.each([
  ['missing', () => join(folder, 'missing.pem'), /cannot read.*ENOENT.*openssl genpkey/],
  ['a folder', () => folder, /cannot read/],
  ['encrypted', () => fileOf('encrypted.pem', pem(privateKey, 'passphrase')), /encrypted.*decrypt it/],
  ['a public key', () => fileOf('public.pem', pem(publicKey)), /public key; use the private key/],
  ['of another type', () => fileOf('rsa.pem', pem(rsa.privateKey)), /type rsa, not ed25519/],
  ['empty', () => fileOf('empty.pem', ''), /not contain a private key in PEM/],
  ['not PEM', () => fileOf('raw.pem', 'SECRET'), /not contain a private key in PEM/],
])('a key file that is %s is refused with advice', (_, path, message) => {
  expect(() => loadSigner(path())).toThrow(SigningKeyUnusable);
  expect(() => loadSigner(path())).toThrow(message);
});

test('no error text contains a key file’s content', () => {
  const path = fileOf('broken.pem', String(pem(privateKey)).replace('MC4', 'XXX'));
  const secret = String(pem(privateKey)).split('\n')[1]!.slice(8, 24);
  const error = (() => {
    try {
      return loadSigner(path);
    } catch (thrown) {
      return thrown;
    }
  })();
  expect(error).toBeInstanceOf(SigningKeyUnusable);
  const { message, stack, cause } = error as Error;
  expect(`${message}${stack}${String(cause)}`).not.toContain(secret);
});
