/** Tests how new visitors are admitted: a few freely, some for a proof of work, and then none. */
import { solveChallenge } from 'altcha-lib';
import { deriveKey } from 'altcha-lib/algorithms/pbkdf2';
import { expect, test } from 'vitest';
import { Challenges, type Solution, solutionSchema } from './challenges.ts';
import { NewVisitors, type VisitorOrigin } from './new-visitors.ts';

/** A time far in the future, because challenges expire by the real clock and these must not expire. */
const nowMs = Date.UTC(2100, 0, 1, 12, 10);
const network = at('n-1');

function at(name: string, address = '192.0.2.1'): VisitorOrigin {
  return { network: name, address };
}

/** Returns a clock that advances by a second at each reading, so that no two checks fall into the same second. */
function slowClock(): () => number {
  let ms = 0;
  return () => (ms += 1000);
}

/** Uses up a network's three free visitors and returns a challenge for the fourth. */
async function afterThree(): Promise<{ visitors: NewVisitors; challenge: Solution['challenge'] }> {
  const visitors = new NewVisitors('token-a', slowClock());
  for (let n = 0; n < 3; n++)
    expect(await visitors.admit(network, undefined, nowMs)).toEqual({ kind: 'allowed' });
  return { visitors, challenge: await challengeFor(visitors, network) };
}

async function challengeFor(visitors: NewVisitors, from: VisitorOrigin): Promise<Solution['challenge']> {
  const asked = await visitors.admit(from, undefined, nowMs);
  if (asked.kind !== 'work') throw new Error(asked.kind);
  return asked.challenge;
}

async function solvedFor(visitors: NewVisitors, from: VisitorOrigin): Promise<Solution> {
  const challenge = await challengeFor(visitors, from);
  const solution = await solveChallenge({ challenge, deriveKey });
  if (solution === null) throw new Error('not solved');
  return { challenge, solution };
}

test('a network’s fourth new visitor must solve a challenge, which counts once, for this network and token', async () => {
  const { visitors } = await afterThree();
  const payload = await solvedFor(visitors, network);
  const { challenge } = payload;
  const kindOf = async (of: NewVisitors, from: VisitorOrigin, sent: unknown): Promise<string> =>
    (await of.admit(from, solutionSchema.safeParse(sent).data, nowMs)).kind;
  for (let n = 0; n < 3; n++) await visitors.admit(at('n-2'), undefined, nowMs);
  expect(await kindOf(visitors, at('n-2'), payload)).toBe('work');
  const foreign = new NewVisitors('token-b');
  for (let n = 0; n < 3; n++) await foreign.admit(network, undefined, nowMs);
  expect(await kindOf(foreign, network, payload)).toBe('work');
  const cheap = { ...payload, challenge: { ...challenge, parameters: { ...challenge.parameters, cost: 1 } } };
  expect(await kindOf(visitors, network, cheap)).toBe('work');
  expect(await kindOf(visitors, network, payload)).toBe('allowed');
  expect(await kindOf(visitors, network, payload)).toBe('work');
});

test('a solution contains the key for its counter, and the key has the required prefix', async () => {
  const { visitors } = await afterThree();
  const guessed = await solvedFor(visitors, network);
  const keyless = { ...guessed, solution: { ...guessed.solution, derivedKey: `00${'ab'.repeat(31)}` } };
  expect((await visitors.admit(network, keyless, nowMs)).kind).toBe('work');
  let [challenge, derivedKey] = [await challengeFor(visitors, network), '00'];
  while (derivedKey.startsWith('00')) {
    challenge = await challengeFor(visitors, network);
    const { nonce, salt } = challenge.parameters;
    const password = Buffer.from(`${nonce}00000000`, 'hex');
    const derived = await deriveKey(challenge.parameters, Buffer.from(salt, 'hex'), password);
    derivedKey = Buffer.from(derived.derivedKey).toString('hex');
  }
  const effortless = { challenge, solution: { counter: 0, derivedKey } };
  expect((await visitors.admit(network, effortless, nowMs)).kind).toBe('work');
});

test('a challenge expires after five minutes', async () => {
  const { visitors } = await afterThree();
  const solved = await solvedFor(visitors, network);
  expect((await visitors.admit(network, solved, nowMs + 301_000)).kind).toBe('work');
  expect((await visitors.admit(network, solved, nowMs + 300_000)).kind).toBe('allowed');
});

test('a call with a time from the previous hour does not restart the counts', async () => {
  const { visitors } = await afterThree();
  expect((await visitors.admit(at('n-2'), undefined, nowMs - 3600_000)).kind).toBe('allowed');
  expect((await visitors.admit(network, undefined, nowMs)).kind).toBe('work');
});

const wrong = { counter: 1, derivedKey: '00'.repeat(32), time: 1 };

test('a network that sends wrong solutions to its own challenges is refused for the rest of the hour', async () => {
  const { visitors, challenge: first } = await afterThree();
  let challenge: Solution['challenge'] = first;
  for (let n = 0; n < 60; n++) {
    const asked = await visitors.admit(network, { challenge, solution: wrong }, nowMs);
    if (asked.kind !== 'work') throw new Error(asked.kind);
    challenge = asked.challenge;
  }
  expect(await visitors.admit(network, undefined, nowMs)).toEqual({
    kind: 'refused',
    retryAfterSeconds: 50 * 60,
  });
  expect((await visitors.admit(at('n-2'), undefined, nowMs)).kind).toBe('allowed');
  expect((await visitors.admit(network, undefined, nowMs + 50 * 60_000)).kind).toBe('allowed');
});

test('forged challenges and repeated solutions use up nothing', async () => {
  const { visitors, challenge } = await afterThree();
  const forged = { ...challenge, parameters: { ...challenge.parameters, nonce: 'ab'.repeat(16) } };
  const sent = [
    forged,
    ...Array.from({ length: 100 }, () => challenge),
    { ...challenge, signature: '00'.repeat(32) },
  ];
  for (const of of sent)
    expect((await visitors.admit(network, { challenge: of, solution: wrong }, nowMs)).kind).toBe('work');
  for (let n = 0; n < 100; n++) await visitors.admit(network, { challenge: forged, solution: wrong }, nowMs);
  expect((await visitors.admit(network, await solvedFor(visitors, network), nowMs)).kind).toBe('allowed');
});

test('after 100 000 networks in an hour, new ones must solve challenges, and none is refused for the others', async () => {
  const visitors = new NewVisitors('token-a');
  for (let n = 0; n < 100_000; n++) await visitors.admit(at(`n-${n}`), undefined, nowMs);
  for (let n = 0; n < 200; n++)
    expect((await visitors.admit(at('n-late'), undefined, nowMs)).kind).toBe('work');
  const solved = await solvedFor(visitors, at('n-late'));
  const failed = { challenge: await challengeFor(visitors, at('n-late')), solution: wrong };
  const kinds = [];
  for (const sent of [failed, solved, solved])
    kinds.push((await visitors.admit(at('n-late'), sent, nowMs)).kind);
  expect(kinds).toEqual(['work', 'allowed', 'work']);
  expect((await visitors.admit(at('n-1'), undefined, nowMs)).kind).toBe('allowed');
});

/** Sends wrong solutions of challenges for this origin one after another, and returns the kind of each answer. */
async function wrongOnes(
  visitors: NewVisitors,
  from: (n: number) => VisitorOrigin,
  count: number,
): Promise<string[]> {
  const challenges = new Challenges('token-a');
  const kinds: string[] = [];
  for (let n = 0; n < count; n++) {
    const sent = { challenge: challenges.create(from(n).network, nowMs), solution: wrong };
    kinds.push((await visitors.admit(from(n), sent, nowMs)).kind);
  }
  return kinds;
}

/** Returns new visitors with a clock that stands still. Each of the networks has used up its free visitors. */
async function inOneSecond(...networks: readonly VisitorOrigin[]): Promise<NewVisitors> {
  const visitors = new NewVisitors('token-a', () => 5000);
  for (const of of networks) for (let n = 0; n < 3; n++) await visitors.admit(of, undefined, nowMs);
  return visitors;
}

const times = (count: number, kind: string): string[] => Array.from({ length: count }, () => kind);

test('each second allows 100 checks for counted networks and 20 for all others; an early one counts later', async () => {
  let monotonicMs = 5000;
  const visitors = new NewVisitors('token-a', () => monotonicMs);
  const counted = (n: number) => at(`n-${n}`, `10.0.0.${n}`);
  const other = (n: number) => at(`n-late-${n}`, `10.0.1.${n}`);
  for (let n = 0; n < 100; n++)
    for (let visitor = 0; visitor < 3; visitor++) await visitors.admit(counted(n), undefined, nowMs);
  for (let n = 100; n < 99_999; n++) await visitors.admit(at(`n-${n}`), undefined, nowMs);
  // The last network that gets a count of its own, and the first that gets none.
  const [last, late] = [at('n-last', '192.0.2.1'), at('n-late', '192.0.2.2')];
  for (let n = 0; n < 3; n++) await visitors.admit(last, undefined, nowMs);
  const [early, lateOne] = [await solvedFor(visitors, last), await solvedFor(visitors, late)];
  expect(await wrongOnes(visitors, counted, 100)).toEqual(times(100, 'work'));
  expect(await visitors.admit(last, early, nowMs)).toEqual({ kind: 'busy', retryAfterSeconds: 1 });
  expect(await wrongOnes(visitors, other, 20)).toEqual(times(20, 'work'));
  expect((await visitors.admit(late, lateOne, nowMs)).kind).toBe('busy');
  monotonicMs += 1000;
  expect((await visitors.admit(last, early, nowMs)).kind).toBe('allowed');
  expect((await visitors.admit(late, lateOne, nowMs)).kind).toBe('allowed');
  expect((await visitors.admit(late, lateOne, nowMs)).kind).toBe('work');
});

test('one network may use a quarter of the checks per second, across all its 65 536 IPv6 networks', async () => {
  const customers = Array.from({ length: 40 }, (_, n) => at(`n-${n}`, `2001:db8:1:${n.toString(16)}::1`));
  const visitors = await inOneSecond(network, ...customers);
  const from = (n: number) => customers[n] ?? network;
  expect(await wrongOnes(visitors, from, 40)).toEqual([...times(25, 'work'), ...times(15, 'busy')]);
  expect((await visitors.admit(network, await solvedFor(visitors, network), nowMs)).kind).toBe('allowed');
});

test('ten networks that send all they can leave checks for another network', async () => {
  const flood = Array.from({ length: 10 }, (_, n) => at(`n-flood-${n}`, `198.51.100.${n}`));
  for (const from of [
    (n: number) => flood[n % 10] ?? network,
    (n: number) => flood[Math.floor(n / 60)] ?? network,
  ]) {
    const visitors = await inOneSecond(network, ...flood);
    expect(await wrongOnes(visitors, from, 600)).toContain('busy');
    expect((await visitors.admit(network, await solvedFor(visitors, network), nowMs)).kind).toBe('allowed');
  }
});
