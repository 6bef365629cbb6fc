import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { known, recordsOf, sha256 } from '../../test/support/commits.ts';
import { mintKey } from '../ids/api-key.ts';
import { createLookup, type Lookup } from '../snapshot/lookup.ts';
import { memorySnapshot } from '../snapshot/open-snapshot.ts';
import { authenticate, type Credentials, carriesCredential } from './authenticate.ts';
import { Refusal } from './refusal.ts';

/** Returns a key that depends only on the name, so that every run uses the same keys. */
function keyOf(name: string): string {
  return mintKey((bytes) => createHash('shake256', { outputLength: bytes }).update(name).digest());
}
const keys = {
  acme: keyOf('acme'),
  second: keyOf('second'),
  birch: keyOf('birch'),
  late: keyOf('late'),
  revoked: keyOf('revoked'),
  unknown: keyOf('unknown'),
};
const openai = 'stk-amber-otter-1';
const switched = 'stk-silent-lynx-2';
const endMs = Date.UTC(2026, 5, 1);
const nowMs = endMs - 1;

function key(name: keyof typeof keys, organisation: string, expiresAt: string | null = null) {
  return known('key.created', {
    id: `key-${name}`,
    organisation,
    name,
    hash: sha256(keys[name]),
    expires: expiresAt ? '30d' : 'never',
    expiresAt,
  });
}

const snapshot = memorySnapshot();
snapshot.apply(
  recordsOf([
    ['acme', 'birch'].map((id) =>
      known('organisation.set', { id, name: id, tier: null, anchor: '2026-01-01' }),
    ),
    [
      key('acme', 'acme'),
      key('second', 'acme'),
      key('birch', 'birch'),
      key('revoked', 'acme'),
      key('late', 'acme', new Date(endMs).toISOString()),
    ],
    [known('key.revoked', { id: 'key-revoked' })],
    [
      known('stack.created', { id: openai, organisation: 'acme', surface: 'openai' }),
      known('stack.created', { id: switched, organisation: 'acme', surface: 'anthropic' }),
    ],
  ]),
);
const lookup = createLookup(snapshot.db);

/** A look-up that fails the test if it is used. */
const noLookup = new Proxy({} as Lookup, {
  get: () => () => {
    throw new Error('the snapshot was asked');
  },
});

const shared = { kind: 'shared' } as const;
const stackOf = (stack: string) => ({ kind: 'stack', stack }) as const;

function callerOf(
  credentials: Partial<Credentials>,
  target: Parameters<typeof authenticate>[1] = shared,
  atMs = nowMs,
  over = lookup,
): string {
  try {
    const caller = authenticate(
      over,
      target,
      { authorization: undefined, xApiKey: undefined, ...credentials },
      atMs,
    );
    return caller.kind === 'key' ? caller.owner.keyId : caller.kind;
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    expect(error.envelope('/v1')).toEqual({
      error: {
        code: 'UNAUTHENTICATED',
        type: 'Unauthorized',
        message: 'The API key is missing or not valid.',
        status: 401,
        path: '/v1',
      },
    });
    expect(error.retryAfterSeconds).toBeUndefined();
    return `401 ${error.reason}`;
  }
}

test.each([
  [`Bearer ${keys.acme}`, 'key-acme'],
  [`bearer  ${keys.acme}  `, 'key-acme'],
  [`BEARER ${keys.birch}`, 'key-birch'],
  [`Bearer ${keys.late}`, 'key-late'],
  [undefined, '401 missing'],
  ['', '401 missing'],
  ['Bearer', '401 missing'],
  ['Bearer ', '401 missing'],
  [`Bearer\t${keys.acme}`, '401 malformed'],
  [` Bearer ${keys.acme}`, '401 malformed'],
  [`Bearer${keys.acme}`, '401 malformed'],
  [`Basic ${keys.acme}`, '401 malformed'],
  [keys.acme, '401 malformed'],
  [`Bearer ${keys.acme} ${keys.acme}`, '401 malformed'],
  [`Bearer ${keys.acme}\nBearer ${keys.acme}`, '401 two Authorization headers'],
  [`Bearer ${keys.acme},`, '401 malformed'],
  [`Bearer "${keys.acme}"`, '401 malformed'],
  [`Bearer ${keys.acme.toLowerCase()}`, '401 malformed'],
  [`Bearer ${keys.unknown}`, '401 unknown'],
  [`Bearer ${keys.revoked}`, '401 revoked'],
])('Authentication 1, Authentication 8: authorization %j is %s', (authorization, expected) => {
  expect(callerOf({ authorization })).toBe(expected);
});

test('Authentication 3: a key with one wrong, missing or extra character is refused without a look-up', () => {
  const { acme } = keys;
  const character = fc.constantFrom(...'0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-');
  fc.assert(
    fc.property(
      fc.nat(acme.length - 1),
      character,
      fc.constantFrom('replaced', 'lost', 'added'),
      (at, other, how) => {
        const rest = acme.slice(how === 'added' ? at : at + 1);
        const text = acme.slice(0, at) + (how === 'lost' ? '' : other) + rest;
        fc.pre(text !== acme);
        expect(callerOf({ authorization: `Bearer ${text}` }, shared, nowMs, noLookup)).toBe('401 malformed');
      },
    ),
    { numRuns: 500 },
  );
});

test.each([
  ['the shared host', shared, keys.acme, '401 missing'],
  ['an unswitched own stack', stackOf(openai), keys.acme, '401 missing'],
  ['a switched own stack', stackOf(switched), keys.acme, 'key-acme'],
  ['a switched own stack, with spaces', stackOf(switched), ` ${keys.acme} `, 'key-acme'],
  ['a switched foreign stack', stackOf(switched), keys.birch, '401 missing'],
  ['a stack that does not exist', stackOf('stk-never-made-3'), keys.acme, '401 missing'],
  ['a switched own stack, revoked', stackOf(switched), keys.revoked, '401 missing'],
  ['a switched own stack, unknown', stackOf(switched), keys.unknown, '401 missing'],
  ['a switched own stack, empty', stackOf(switched), '', '401 missing'],
  ['a switched own stack, twice', stackOf(switched), `${keys.acme}, ${keys.acme}`, '401 missing'],
])('Authentication 2: x-api-key on %s', (_name, target, xApiKey, expected) => {
  expect(callerOf({ xApiKey }, target)).toBe(expected);
});

test.each([
  ['the same key', keys.acme, keys.acme, 'key-acme'],
  ['another key of the organisation', keys.acme, keys.second, '401 two different keys'],
  ['a broken bearer', keys.acme, 'x', '401 two different keys'],
  ['a foreign x-api-key', keys.birch, keys.acme, '401 two different keys'],
  ['a broken x-api-key', 'x', keys.acme, '401 two different keys'],
  ['an empty x-api-key', ' ', keys.acme, 'key-acme'],
])(
  'Authentication 2: on a switched own stack, %s together with a bearer token',
  (_name, xApiKey, bearer, expected) => {
    expect(callerOf({ xApiKey, authorization: `Bearer ${bearer}` }, stackOf(switched))).toBe(expected);
  },
);

test('Authentication 2: foreign stacks and missing ones give every pair of headers the same answer', () => {
  const header = fc.option(fc.constantFrom(...Object.values(keys), 'x', ''), { nil: undefined });
  const foreign = inOtherHands();
  fc.assert(
    fc.property(header, header, (xApiKey, bearer) => {
      const authorization = bearer === undefined ? undefined : `Bearer ${bearer}`;
      const asked = [openai, switched, 'stk-never-made-3'].map((stack) =>
        callerOf({ xApiKey, authorization }, stackOf(stack), nowMs, foreign),
      );
      expect(new Set(asked).size).toBe(1);
    }),
  );
});

/** Returns a look-up with the same keys, in which another organisation owns both stacks. */
function inOtherHands(): Lookup {
  return {
    ...lookup,
    stack: (id) =>
      lookup.stack(id)
        ? { surface: id === switched ? 'anthropic' : 'openai', organisation: 'cedar' }
        : undefined,
  };
}

test('any headers give a key or Unauthorized, whatever the host', () => {
  const header = fc.option(
    fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.string().map((text) => `Bearer ${text}`),
    ),
    { nil: undefined },
  );
  fc.assert(
    fc.property(
      fc.constantFrom(shared, stackOf(openai), stackOf(switched)),
      header,
      header,
      (target, authorization, xApiKey) => {
        expect(callerOf({ authorization, xApiKey }, target)).toMatch(/^401 /);
      },
    ),
  );
});

test.each([
  [shared, { authorization: `Bearer ${keys.unknown}` }, true],
  [shared, { authorization: `Bearer ${keys.acme}x` }, true],
  [shared, { authorization: 'Bearer x' }, true],
  [shared, { authorization: 'x' }, true],
  [shared, { authorization: 'Basic eDp4' }, true],
  [shared, { authorization: 'Bearer' }, false],
  [shared, { authorization: ' ' }, false],
  [shared, {}, false],
  [shared, { xApiKey: keys.acme }, false],
  [stackOf(openai), { xApiKey: keys.unknown }, true],
  [stackOf(openai), { xApiKey: 'x' }, true],
  [stackOf(openai), { xApiKey: ' ' }, false],
  [stackOf('stk-never-made-3'), { xApiKey: keys.acme }, true],
  [stackOf(openai), { xApiKey: keys.acme, authorization: 'Bearer x' }, true],
])(
  'whether %j with %j carries a credential that a fenced gateway may not judge: %s',
  (target, credentials, expected) => {
    expect(carriesCredential(target, { authorization: undefined, xApiKey: undefined, ...credentials })).toBe(
      expected,
    );
  },
);
