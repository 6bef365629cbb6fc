/** Tests the rules for adding and removing the log's signers, and which replicas must keep the right to sign. */
import { expect, test } from 'vitest';
import { computeFingerprint } from '../../shared/log/core/signing.ts';
import { newSigner } from '../../test/contract/signer-changes.ts';
import { TestState } from '../../test/support/state.ts';
import type { SigningView } from './definition.ts';

const [a, b, c] = [newSigner().publicKey, newSigner().publicKey, newSigner().publicKey] as const;
const replica = (name: string, publicKey?: string) => ({
  name,
  signer: publicKey === undefined ? undefined : computeFingerprint(publicKey),
});
function view(
  signers: readonly string[],
  own: string | undefined,
  ...others: SigningView['replicas']
): SigningView {
  return { signers, own, replicas: [...(own === undefined ? [] : [replica('cp-1', own)]), ...others] };
}
const state = new TestState();
const add = (publicKey: string, signing: SigningView, force = false) =>
  state.decide('signer.add', { body: { publicKey } }, { signing, force });
const remove = (publicKey: string, signing: SigningView, force = false) =>
  state.decide(
    'signer.remove',
    { params: { fingerprint: computeFingerprint(publicKey) } },
    { signing, force },
  );
const signersSet = (...signers: readonly string[]) => [{ type: 'log.signers_set', data: { signers } }];
const refusal = (type: string, message: RegExp) =>
  expect.objectContaining({ type, message: expect.stringMatching(message) });

test('a key is added to the existing ones, and adding it again changes nothing', () => {
  const { events, result } = add(b, view([a], a));
  expect(events).toEqual(signersSet(a, b));
  expect(result()).toMatchObject({
    fingerprint: computeFingerprint(b),
    signers: [a, b].map(computeFingerprint),
  });
  expect(add(b, view([a, b], a)).events).toEqual([]);
});

test('a key is the same in PEM and in base64, and other texts are not keys', () => {
  const pem = `-----BEGIN PUBLIC KEY-----\n${a}\n-----END PUBLIC KEY-----\n`;
  expect(add(pem, view([a], a)).events).toEqual([]);
  for (const text of ['', 'x', a.slice(4), `-----BEGIN PRIVATE KEY-----\n${a}\n-----END PRIVATE KEY-----\n`])
    expect(() => add(text, view([a], a))).toThrow(expect.objectContaining({ type: 'InvalidCommand' }));
});

test('a log’s first signer is the replica that signs the change', () => {
  expect(add(a, view([], a)).events).toEqual(signersSet(a));
  expect(() => add(b, view([], a))).toThrow(refusal('Conflict', /not signed/));
  expect(() => add(b, view([], undefined), true)).toThrow(refusal('Conflict', /not signed/));
});

test('without force, no change takes a running replica’s right to write', () => {
  const others = [replica('cp-2', b), replica('cp-3')];
  expect(() => add(a, view([], a, ...others))).toThrow(refusal('GuardRefused', /cp-2, cp-3/));
  expect(() => remove(b, view([a, b], a, replica('cp-2', b)))).toThrow(refusal('GuardRefused', /: cp-2$/));
  expect(() => remove(a, view([a, b], a, replica('cp-2', b)))).toThrow(refusal('GuardRefused', /: cp-1$/));
  // This replica's own report may not have arrived yet, so its key is passed separately.
  expect(() => remove(a, { signers: [a, b], own: a, replicas: [] })).toThrow(
    refusal('GuardRefused', /this one/),
  );
  expect(remove(b, view([a, b, c], a, replica('cp-2', c))).events).toEqual(signersSet(a, c));
  expect(remove(a, view([a, b], a, replica('cp-2', a)), true).events).toEqual(signersSet(b));
});

test('the last signer stays even with force, and an unknown one cannot be removed', () => {
  for (const force of [false, true]) {
    expect(() => remove(a, view([a], a), force)).toThrow(refusal('Conflict', /last signer/));
    expect(() => remove(b, view([a], a), force)).toThrow(refusal('NotFound', /no signer/));
    expect(() => remove(a, view([], a), force)).toThrow(refusal('NotFound', /no signer/));
  }
});

test('a log has no more signers than its readers accept', () => {
  const many = Array.from({ length: 15 }, () => newSigner().publicKey);
  expect(add(b, view([a, ...many.slice(1)], a)).events).toEqual(signersSet(a, ...many.slice(1), b));
  expect(() => add(b, view([a, ...many], a))).toThrow(refusal('Conflict', /at most 16/));
});
