/**
 * Tests the rule by which readers accept records, clause by clause, against the published vectors, and in bulk. The vectors
 * in schemas/vectors never change, so that readers in other languages can be tested with them.
 */
import { createPrivateKey, createPublicKey, generateKeyPairSync, sign } from 'node:crypto';
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { commitBytesMax, genesisPrev } from '../../../schemas/events/commit.ts';
import { type StoredEvent, toStored } from '../../../schemas/events/events.ts';
import {
  CommitTooLarge,
  chainRules,
  composeCommit,
  emptyHead,
  type Head,
  type Judgement,
  judge,
  judgeBatch,
  recordHash,
} from './chain.ts';
import type { LogRecord } from './control-log.ts';
import { type Signer, verify } from './signing.ts';

function newSigner(): Signer {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  const der = publicKey.export({ type: 'spki', format: 'der' });
  return { publicKey: der.toString('base64'), sign: (raw) => sign(null, raw, privateKey) };
}

const noOp = toStored({ type: 'no_op', data: {} });
const at = '2026-11-01T00:00:00.000Z';

function created(log: string, signers?: readonly string[]): StoredEvent {
  return toStored({ type: 'log.created', data: signers ? { log, signers: [...signers] } : { log } });
}
function genesis(log = 'main', signer?: Signer, signers = signer && [signer.publicKey]): LogRecord {
  const head = emptyHead(log);
  return record(
    composeCommit({ head, id: 'create', at, by: 'test', events: [created(log, signers)] }),
    signer,
  );
}
function next(head: Head, id = 'command', signer?: Signer): LogRecord {
  return record(composeCommit({ head, id, at, by: 'test', events: [noOp] }), signer);
}
function record(value: Buffer, signer?: Signer): LogRecord {
  return { offset: 0, value, signature: signer?.sign(value) ?? null };
}
function changed(original: LogRecord, fields: Record<string, unknown>, signer?: Signer): LogRecord {
  return record(Buffer.from(JSON.stringify({ ...JSON.parse(String(original.value)), ...fields })), signer);
}
function accept(head: Head, candidate: LogRecord): Head {
  const judgement = judge(head, candidate);
  if ('skipped' in judgement) throw new Error(`skipped: ${judgement.skipped}`);
  return judgement.head;
}
function reasonOf(judgement: Judgement): string {
  return 'skipped' in judgement ? judgement.skipped : 'accepted';
}

describe('the first record', () => {
  const good = genesis('main');
  const event = created('main');
  test.each<[string, Record<string, unknown>, string]>([
    ['no event', { events: [] }, 'genesis'],
    ['another event', { events: [noOp] }, 'genesis'],
    ['a second event', { events: [event, noOp] }, 'genesis'],
    ['another event first', { events: [noOp, event] }, 'genesis'],
    ['another log’s id in the event', { events: [created('other')] }, 'genesis'],
    ['another log’s id in the envelope', { log: 'other' }, 'genesis'],
    ['data that is not an object', { events: [{ ...event, data: null }] }, 'genesis'],
    ['an id of another form', { log: 'Main', events: [{ ...event, data: { log: 'Main' } }] }, 'genesis'],
    ['signers not in a list', { events: [{ ...event, data: { log: 'main', signers: 'x' } }] }, 'genesis'],
    ['signers that are numbers', { events: [{ ...event, data: { log: 'main', signers: [1] } }] }, 'genesis'],
    ['seq 2', { seq: 2 }, 'seq'],
    ['seq 0', { seq: 0 }, 'unreadable'],
    ['a prev other than zeros', { prev: '1'.repeat(64) }, 'prev'],
    ['another envelope version', { v: 2 }, 'unreadable'],
  ])('with %s is skipped', (_, fields, reason) => {
    expect(reasonOf(judge(emptyHead(), changed(good, fields)))).toBe(reason);
  });

  test('counts even if a later version of its event has more fields', () => {
    const later = { ...event, v: 7, data: { log: 'main', region: 'eu' } };
    expect(reasonOf(judge(emptyHead(), changed(good, { events: [later] })))).toBe('accepted');
  });
});

describe('a later record', () => {
  const head = accept(emptyHead(), genesis('main'));
  const good = next(head);

  test.each<[string, Record<string, unknown>, string]>([
    ['from another log', { log: 'other' }, 'log'],
    ['with the head’s seq', { seq: 1 }, 'seq'],
    ['one position too far', { seq: 3 }, 'seq'],
    ['with a fractional seq', { seq: 2.5 }, 'unreadable'],
    ['on another prev', { prev: genesisPrev }, 'prev'],
    ['with a prev in capitals', { prev: head.hash.toUpperCase() }, 'unreadable'],
    ['without events', { events: undefined }, 'unreadable'],
  ])('%s is skipped', (_, fields, reason) => {
    expect(reasonOf(judge(head, changed(good, fields)))).toBe(reason);
  });

  test('is accepted with unknown fields and events', () => {
    const event = { type: 'moon.risen', v: 9, critical: true, data: 'x' };
    expect(reasonOf(judge(head, changed(good, { extra: 1, events: [event] })))).toBe('accepted');
  });

  test('is chained by its raw bytes: the same commit in other bytes is another record', () => {
    const spaced = record(Buffer.from(JSON.stringify(JSON.parse(String(good.value)), null, 1)));
    const [a, b] = [accept(head, good), accept(head, spaced)];
    expect(a.hash).not.toBe(b.hash);
    expect(reasonOf(judge(b, next(a)))).toBe('prev');
  });
});

test('no bytes make the rules throw', () => {
  const head = accept(emptyHead(), genesis('main'));
  const bytes = fc.oneof(
    fc.uint8Array({ maxLength: 300 }).map((array) => Buffer.from(array)),
    fc.json().map((text) => Buffer.from(text)),
    fc
      .record({ v: fc.constant(1), log: fc.anything(), seq: fc.anything(), events: fc.anything() })
      .map((value) => {
        return Buffer.from(
          JSON.stringify(value, (_, inner) => (typeof inner === 'bigint' ? 0 : inner)) ?? '',
        );
      }),
  );
  fc.assert(
    fc.property(bytes, (value) => {
      expect(reasonOf(judge(head, record(value)))).not.toBe('accepted');
      expect(reasonOf(judge(emptyHead(), record(value)))).not.toBe('accepted');
    }),
  );
});

test('deeply nested records are judged like any other', () => {
  const value = Buffer.from('['.repeat(400_000) + ']'.repeat(400_000));
  expect(reasonOf(judge(emptyHead(), record(value)))).toBe('unreadable');
});

describe('a batch of records', () => {
  const signers = [newSigner(), newSigner()];
  const outsider = newSigner();
  const names = signers.map((signer) => signer.publicKey);

  /**
   * Builds a signed log with this many commits. Each commit is followed by the record of a second writer that lost the race.
   */
  function honestLog(count: number): LogRecord[] {
    const records = [genesis('main', signers[0], names)];
    let head = accept(emptyHead(), records[0]!);
    for (let n = 0; n < count; n++) {
      const [winner, loser] = [
        next(head, `a${n}`, signers[n % 2]),
        next(head, `b${n}`, signers[(n + 1) % 2]),
      ];
      records.push(winner, loser);
      head = accept(head, winner);
    }
    return records;
  }
  const honest = honestLog(6);

  /** Builds a record that could come from an outsider who knows all earlier records but has no signer's key. */
  function forgery(kind: number, pick: number, before: readonly LogRecord[]): LogRecord {
    const judgements = judgeOneByOne(emptyHead(), before);
    const last = judgements.findLast((judgement) => 'accepted' in judgement);
    const head = last && 'accepted' in last ? last.head : emptyHead('main');
    const known = before[pick % Math.max(before.length, 1)] ?? next(head);
    const fake = head.seq === 0 ? genesis('main', undefined, names) : next(head, `forged-${pick}`);
    const kinds: LogRecord[] = [
      fake,
      { ...fake, signature: outsider.sign(fake.value) },
      { ...fake, signature: Buffer.alloc(64, pick) },
      { ...fake, signature: known.signature },
      known,
      { ...known, signature: null },
      { ...known, signature: Buffer.alloc(64) },
      record(Buffer.from('junk')),
      // This record is signed with a key that only the forger's own first record names.
      genesis('main', undefined, [outsider.publicKey]),
    ];
    return kinds[kind % kinds.length]!;
  }

  function judgeOneByOne(from: Head, records: readonly LogRecord[]): Judgement[] {
    let head = from;
    return records.map((candidate) => {
      const judgement = judge(head, candidate);
      if ('accepted' in judgement) head = judgement.head;
      return judgement;
    });
  }

  /** Judges the records in batches of these sizes, which are used in turn and then again from the first. */
  function judgeInBatches(from: Head, records: readonly LogRecord[], sizes: readonly number[]): Judgement[] {
    let head = from;
    const all: Judgement[] = [];
    for (let start = 0, n = 0; start < records.length; n++) {
      const batch = records.slice(start, start + sizes[n % sizes.length]!);
      start += batch.length;
      const judgements = judgeBatch(head, batch);
      for (const judgement of judgements) if ('accepted' in judgement) head = judgement.head;
      all.push(...judgements);
    }
    return all;
  }

  const insertions = fc.array(fc.record({ place: fc.nat(13), kind: fc.nat(20), pick: fc.nat(50) }), {
    maxLength: 8,
  });
  const sizes = fc.array(fc.integer({ min: 1, max: 12 }), { minLength: 1, maxLength: 4 });

  test('gives the same results as one by one, with any records added without a key and in any sizes', () => {
    let forged = 0;
    fc.assert(
      fc.property(insertions, sizes, (added, batchSizes) => {
        const records: LogRecord[] = [];
        for (const [place, genuine] of honest.entries()) {
          for (const { kind, pick } of added.filter((one) => one.place === place)) {
            records.push(forgery(kind, pick, records));
            forged++;
          }
          records.push(genuine);
        }
        const expected = judgeOneByOne(emptyHead(), records);
        expect(judgeInBatches(emptyHead(), records, batchSizes)).toEqual(expected);
        const accepted = records.filter((_, index) => 'accepted' in expected[index]!);
        expect(accepted.map(({ value }) => recordHash(value))).toEqual(
          judgeOneByOne(emptyHead(), honest).flatMap((one) => ('accepted' in one ? [one.head.hash] : [])),
        );
      }),
      { numRuns: 150 },
    );
    expect(forged).toBeGreaterThan(100);
  });

  test('gives the same results as one by one if records are dropped, repeated or reordered', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(honest.length - 1), { maxLength: 25 }), sizes, (order, batchSizes) => {
        const records = order.map((index) => honest[index]!);
        expect(judgeInBatches(emptyHead(), records, batchSizes)).toEqual(judgeOneByOne(emptyHead(), records));
      }),
      { numRuns: 150 },
    );
  });

  test('is not rejected for a well-formed forgery at its end', () => {
    const head = judgeOneByOne(emptyHead(), honest).findLast((one) => 'accepted' in one) as { head: Head };
    const fake = { ...next(head.head), signature: Buffer.alloc(64, 1) };
    const judgements = judgeBatch(emptyHead(), [...honest, fake]);
    expect(reasonOf(judgements.at(-1)!)).toBe('signature');
    expect(judgements.filter((judgement) => 'accepted' in judgement)).toHaveLength(7);
  });

  test('accepts a damaged signature inside the chain, and that accepts nothing else', () => {
    const damaged = honest.map((one, index) => (index === 1 ? { ...one, signature: Buffer.alloc(64) } : one));
    expect(judgeBatch(emptyHead(), damaged).map(reasonOf)).toEqual(
      judgeBatch(emptyHead(), honest).map(reasonOf),
    );
    expect(reasonOf(judgeOneByOne(emptyHead(), damaged)[1]!)).toBe('signature');
  });

  test.each([
    ['missing', null],
    ['cut short', honest[1]!.signature!.subarray(0, 63)],
  ])('skips a record whose signature is %s, as one by one', (_, signature) => {
    const stripped = honest.map((one, index) => (index === 1 ? { ...one, signature } : one));
    const judgements = judgeBatch(emptyHead(), stripped);
    expect(judgements).toEqual(judgeOneByOne(emptyHead(), stripped));
    expect(reasonOf(judgements[1]!)).toBe('signature');
  });

  test('may be empty', () => {
    expect(judgeBatch(emptyHead(), [])).toEqual([]);
  });
});

describe('composing', () => {
  const head = accept(emptyHead(), genesis('main'));
  const draft = { head, id: 'c', at, by: 'test', events: [noOp] };

  test('leaves out optional members that are not given', () => {
    const bare = JSON.parse(String(composeCommit(draft)));
    expect(Object.keys(bare)).toEqual(['v', 'log', 'seq', 'prev', 'id', 'at', 'by', 'events']);
    const full = JSON.parse(String(composeCommit({ ...draft, why: 'because', command: 'a'.repeat(64) })));
    expect(full).toMatchObject({ ...bare, why: 'because', command: 'a'.repeat(64) });
  });

  test('takes a commit of 900 KB and refuses one byte more', () => {
    const room = commitBytesMax - composeCommit({ ...draft, why: '' }).length;
    expect(composeCommit({ ...draft, why: 'x'.repeat(room) })).toHaveLength(commitBytesMax);
    expect(() => composeCommit({ ...draft, why: 'x'.repeat(room + 1) })).toThrow(CommitTooLarge);
  });

  test('counts bytes, not characters', () => {
    expect(() => composeCommit({ ...draft, why: 'é'.repeat(commitBytesMax / 2) })).toThrow(CommitTooLarge);
  });

  test('requires the log’s id', () => {
    expect(() => composeCommit({ ...draft, head: emptyHead() })).toThrow(/id of its log/);
  });
});

test('the rules are the frozen ones', () => {
  expect(chainRules.map((rule) => rule.name)).toEqual(['log', 'seq', 'prev', 'genesis', 'signature']);
});

interface ChainVectors {
  readonly chains: readonly {
    readonly name: string;
    readonly expectedLog: string | null;
    readonly records: readonly {
      readonly value: string;
      readonly signatureBase64: string | null;
      readonly sha256: string;
      readonly outcome: string;
    }[];
    readonly head: Head;
  }[];
}
interface SignatureVectors {
  /** The 32 bytes of the private key, in hex. */
  readonly seedHex: string;
  readonly publicKey: string;
  readonly cases: readonly {
    readonly name: string;
    readonly value: string;
    readonly signatureBase64: string;
    readonly valid: boolean;
  }[];
}
function vectors<Content>(name: string): Content {
  return JSON.parse(readFileSync(new URL(`../../../schemas/vectors/${name}`, import.meta.url), 'utf8'));
}

const { chains } = vectors<ChainVectors>('chain.json');
test.each(chains.map((chain) => [chain.name, chain] as const))('vector: %s', (_, chain) => {
  const records = chain.records.map(({ value, signatureBase64 }, offset) => ({
    offset,
    value: Buffer.from(value),
    signature: signatureBase64 === null ? null : Buffer.from(signatureBase64, 'base64'),
  }));
  expect(records.map(({ value }) => recordHash(value))).toEqual(chain.records.map(({ sha256 }) => sha256));
  let head = emptyHead(chain.expectedLog);
  const outcomes = records.map((candidate) => {
    const judgement = judge(head, candidate);
    if ('accepted' in judgement) head = judgement.head;
    return reasonOf(judgement);
  });
  expect(outcomes).toEqual(chain.records.map(({ outcome }) => outcome));
  expect(head).toEqual(chain.head);
  expect(judgeBatch(emptyHead(chain.expectedLog), records).map(reasonOf)).toEqual(outcomes);
});

const signatures = vectors<SignatureVectors>('signature.json');
test.each(signatures.cases.map((one) => [one.name, one] as const))('vector: %s', (_, one) => {
  const value = Buffer.from(one.value);
  const signature = Buffer.from(one.signatureBase64, 'base64');
  expect(verify([signatures.publicKey], value, signature)).toBe(one.valid);
  const pkcs8 = Buffer.from(`302e020100300506032b657004220420${signatures.seedHex}`, 'hex');
  const key = createPrivateKey({ key: pkcs8, format: 'der', type: 'pkcs8' });
  const der = createPublicKey(key).export({ type: 'spki', format: 'der' });
  expect(der.toString('base64')).toBe(signatures.publicKey);
  if (one.valid) expect(sign(null, value, key)).toEqual(signature);
});
