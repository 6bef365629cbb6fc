/** Who may begin as a new visitor: some for nothing, some for work, and no more. */
import { solveChallenge } from 'altcha-lib';
import { deriveKey } from 'altcha-lib/algorithms/pbkdf2';
import type { Payload } from 'altcha-lib/types';
import { expect, test } from 'vitest';
import { NewVisitors } from './new-visitors.ts';

/** Challenges end by the clock of the machine, so these never do. */
const nowMs = Date.UTC(2100, 0, 1, 12, 10);
const network = 'n-1';

/** Visitors of a network that has begun those that cost nothing, and the work for a fourth. */
async function afterThree(): Promise<{ visitors: NewVisitors; challenge: Payload['challenge'] }> {
  const visitors = new NewVisitors('token-a');
  for (let n = 0; n < 3; n++)
    expect(await visitors.admit(network, undefined, nowMs)).toEqual({ kind: 'allowed' });
  const asked = await visitors.admit(network, undefined, nowMs);
  if (asked.kind !== 'work') throw new Error(asked.kind);
  return { visitors, challenge: asked.challenge };
}

test('the fourth new visitor of a network costs work, which counts once, for this network, and with this token', async () => {
  const { visitors, challenge } = await afterThree();
  const solution = await solveChallenge({ challenge, deriveKey });
  if (solution === null) throw new Error('not solved');
  const payload = { challenge, solution };
  const kindOf = async (of: NewVisitors, from: string, sent: Payload): Promise<string> =>
    (await of.admit(from, sent, nowMs)).kind;
  for (let n = 0; n < 3; n++) await visitors.admit('n-2', undefined, nowMs);
  expect(await kindOf(visitors, 'n-2', payload)).toBe('work');
  const foreign = new NewVisitors('token-b');
  for (let n = 0; n < 3; n++) await foreign.admit(network, undefined, nowMs);
  expect(await kindOf(foreign, network, payload)).toBe('work');
  const cheap = { ...payload, challenge: { ...challenge, parameters: { ...challenge.parameters, cost: 1 } } };
  expect(await kindOf(visitors, network, cheap)).toBe('work');
  expect(await kindOf(visitors, network, payload)).toBe('allowed');
  expect(await kindOf(visitors, network, payload)).toBe('work');
});

test('a call whose clock was read in the hour before does not begin the counts again', async () => {
  const { visitors } = await afterThree();
  expect((await visitors.admit('n-2', undefined, nowMs - 3600_000)).kind).toBe('allowed');
  expect((await visitors.admit(network, undefined, nowMs)).kind).toBe('work');
});

const wrong = { counter: 1, derivedKey: '00'.repeat(32), time: 1 };

test('a network whose solutions of its own challenges are wrong is refused for the rest of the hour', async () => {
  const { visitors, challenge: first } = await afterThree();
  let challenge: Payload['challenge'] = first;
  for (let n = 0; n < 60; n++) {
    const asked = await visitors.admit(network, { challenge, solution: wrong }, nowMs);
    if (asked.kind !== 'work') throw new Error(asked.kind);
    challenge = asked.challenge;
  }
  expect(await visitors.admit(network, undefined, nowMs)).toEqual({
    kind: 'refused',
    retryAfterSeconds: 50 * 60,
  });
  expect((await visitors.admit('n-2', undefined, nowMs)).kind).toBe('allowed');
  expect((await visitors.admit(network, undefined, nowMs + 50 * 60_000)).kind).toBe('allowed');
});

test('solutions of challenges that no gateway made, and of one again, use up nothing', async () => {
  const { visitors, challenge } = await afterThree();
  const forged = { ...challenge, parameters: { ...challenge.parameters, nonce: 'ab'.repeat(16) } };
  const sent = [forged, ...Array.from({ length: 100 }, () => challenge), { ...challenge, signature: '' }];
  for (const of of sent)
    expect((await visitors.admit(network, { challenge: of, solution: wrong }, nowMs)).kind).toBe('work');
  for (let n = 0; n < 100; n++) await visitors.admit(network, { challenge: forged, solution: wrong }, nowMs);
  const asked = await visitors.admit(network, undefined, nowMs);
  if (asked.kind !== 'work') throw new Error(asked.kind);
  const solution = await solveChallenge({ challenge: asked.challenge, deriveKey });
  if (solution === null) throw new Error('not solved');
  const payload = { challenge: asked.challenge, solution };
  expect((await visitors.admit(network, payload, nowMs)).kind).toBe('allowed');
});

test('beyond 100 000 networks in an hour, those that come new work, and none is refused for the others', async () => {
  const visitors = new NewVisitors('token-a');
  for (let n = 0; n < 100_000; n++) await visitors.admit(`n-${n}`, undefined, nowMs);
  for (let n = 0; n < 200; n++) expect((await visitors.admit('n-late', undefined, nowMs)).kind).toBe('work');
  const asked = await visitors.admit('n-late', undefined, nowMs);
  if (asked.kind !== 'work') throw new Error(asked.kind);
  const { challenge } = asked;
  const solution = await solveChallenge({ challenge, deriveKey });
  if (solution === null) throw new Error('not solved');
  const kinds = [];
  for (const of of [wrong, solution]) {
    const next = await visitors.admit('n-late', undefined, nowMs);
    if (next.kind !== 'work') throw new Error(next.kind);
    const payload = of === wrong ? { challenge: next.challenge, solution: of } : { challenge, solution: of };
    kinds.push((await visitors.admit('n-late', payload, nowMs)).kind);
  }
  kinds.push((await visitors.admit('n-late', { challenge, solution }, nowMs)).kind);
  expect(kinds).toEqual(['work', 'allowed', 'work']);
  expect((await visitors.admit('n-1', undefined, nowMs)).kind).toBe('allowed');
});
