/**
 * Tests that position, rows and digests change together. However records are batched, repeated or mixed with junk, the same
 * position must always have the same state. Previews must not leave a trace.
 */

import { generateKeyPairSync, sign } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { StoredEvent } from '../../schemas/events/events.ts';
import { runs } from '../../test/support/budget.ts';
import { ChainWriter, fleetHistory, known, recordsOf, sha256 } from '../../test/support/commits.ts';
import type { LogRecord } from '../log/core/control-log.ts';
import { foldVersion } from './fold.ts';
import { eventContext } from './fold-input.ts';
import { memorySnapshot } from './open-snapshot.ts';
import type { Snapshot } from './snapshot.ts';
import { tableNames } from './tables.ts';
import { verify } from './verify.ts';

const key = known('key.created', {
  id: 'key-x',
  organisation: 'org-1',
  name: 'k',
  hash: sha256('x'),
  expires: 'never',
  expiresAt: null,
});

function stateOf(snapshot: Snapshot): unknown {
  const tables = [...tableNames, 'position', 'digest', 'command', 'unread_event', 'anomaly'];
  const rows = tables.map((name) => [name, snapshot.db.prepare(`SELECT * FROM ${name}`).all()]);
  const { seq, log, head, nextOffset, headOffset, skipped, divergedAt, halt } = snapshot;
  return {
    rows,
    digests: snapshot.digests(),
    seq,
    log,
    head,
    nextOffset,
    headOffset,
    skipped,
    divergedAt,
    halt,
  };
}

function folded(records: readonly LogRecord[]): Snapshot {
  const snapshot = memorySnapshot();
  snapshot.apply(records);
  return snapshot;
}

function untidyLog(seed: number, commits: number): LogRecord[] {
  const writer = new ChainWriter();
  const records = [writer.junk('{"before":"genesis"}'), writer.open()];
  for (const [index, events] of fleetHistory(seed, commits).entries()) {
    if (index % 7 === 0) records.push(writer.junk(`not a commit ${index}`));
    if (index % 5 === 0) writer.offset += 3;
    records.push(writer.add(events));
    if (index % 11 === 0) records.push({ ...(records.at(-1) as LogRecord), offset: writer.offset++ });
  }
  return records;
}

test('cutting the log into any batches and slices gives the same state', () => {
  fc.assert(
    fc.property(
      fc.nat({ max: 1000 }),
      fc.array(fc.nat({ max: 9 }), { minLength: 60, maxLength: 60 }),
      fc.boolean(),
      (seed, cuts, isHurried) => {
        const records = untidyLog(seed, 50);
        const pieces = memorySnapshot();
        let rest = records;
        while (rest.length > 0) {
          const piece = rest.slice(0, cuts.pop() ?? 1);
          const { consumed } = pieces.apply(piece, isHurried ? 0 : undefined);
          rest = rest.slice(consumed);
        }
        expect(stateOf(pieces)).toEqual(stateOf(folded(records)));
      },
    ),
    { numRuns: runs({ fast: 15, full: 30 }) },
  );
});

test('folding the same records again changes nothing, including position and counters', () => {
  fc.assert(
    fc.property(
      fc.nat({ max: 1000 }),
      fc.array(fc.tuple(fc.nat({ max: 70 }), fc.nat({ max: 70 })), { minLength: 5, maxLength: 5 }),
      (seed, spans) => {
        const records = untidyLog(seed, 50);
        const snapshot = folded(records);
        const before = stateOf(snapshot);
        for (const [from, count] of spans) {
          snapshot.apply(records.slice(from, from + count));
          expect(stateOf(snapshot)).toEqual(before);
        }
      },
    ),
    { numRuns: runs({ fast: 15, full: 30 }) },
  );
});

test('skipped records are judged again after a rewind, and counted once', () => {
  const writer = new ChainWriter();
  const records = [writer.open(), writer.junk('one'), writer.junk('two')];
  const snapshot = folded(records);
  expect([snapshot.nextOffset, snapshot.skipped]).toEqual([3, 2]);
  snapshot.rewind();
  expect(snapshot.nextOffset).toBe(1);
  snapshot.apply(records.slice(1, 2));
  const { db } = snapshot;
  expect(db.prepare('SELECT next_offset, skipped FROM position').raw().get()).toEqual([3, 2]);
  const more = [...records, writer.junk('three'), writer.add([key])];
  snapshot.apply(more);
  expect(stateOf(snapshot)).toEqual(stateOf(folded(more)));
});

test('after a rewind, a record in the place of lost skipped records is folded', () => {
  const writer = new ChainWriter();
  const opened = writer.open();
  const snapshot = folded([opened, writer.junk('lost'), writer.junk('lost')]);
  writer.offset = 1;
  const next = writer.add([key]);
  snapshot.apply([next]);
  expect(snapshot.seq).toBe(1);
  snapshot.rewind();
  snapshot.apply([next]);
  expect([snapshot.seq, snapshot.nextOffset]).toEqual([2, 2]);
  expect(snapshot.digests()).toEqual(folded([opened, next]).digests());
});

test('a gap stops the fold at the position before it', () => {
  const records = recordsOf(fleetHistory(1, 20));
  const snapshot = folded(records.filter((_, index) => index !== 10));
  expect(snapshot.seq).toBe(10);
  expect(snapshot.skipped).toBe(10);
});

test('a spent budget ends a slice early, but each slice makes progress', () => {
  const records = recordsOf(fleetHistory(2, 300));
  const snapshot = memorySnapshot();
  const { consumed, accepted } = snapshot.apply(records, 0);
  expect(consumed).toBeGreaterThan(0);
  expect(consumed).toBeLessThan(records.length);
  expect(accepted.map(({ seq }) => seq)).toEqual(records.slice(0, consumed).map((_, index) => index + 1));
});

test('large records end a slice sooner, so that a clock check never waits for many of them', () => {
  const writer = new ChainWriter();
  const many = Array.from({ length: 400 }, (_, n) => known('pool.model_installed', { model: `model-${n}` }));
  const records = [writer.open(), ...Array.from({ length: 20 }, () => writer.add(many))];
  expect(records[1]?.value.length).toBeGreaterThan(32 * 1024);
  const { consumed } = memorySnapshot().apply(records, 0);
  expect(consumed).toBeLessThanOrEqual(2);
});

test('a preview lists the events that would be skipped, and changes nothing', () => {
  fc.assert(
    fc.property(fc.nat({ max: 1000 }), (seed) => {
      const records = untidyLog(seed, 30);
      const snapshot = folded(records);
      const before = stateOf(snapshot);
      const next = fleetHistory(seed + 1, 10).flat();
      const context = eventContext({ seq: snapshot.seq + 1, at: '2026-01-01T01:00:00Z', by: 'operator' });
      const reasons = snapshot.stateAt(
        { kind: 'previewed', events: next, context },
        (_state, passedOver) => passedOver,
      );
      expect(stateOf(snapshot)).toEqual(before);
      expect(verify(snapshot.db).differing).toEqual([]);
      const writer = new ChainWriter();
      const again = folded([writer.open(), ...fleetHistory(seed, 30).map((events) => writer.add(events))]);
      again.apply([writer.add(next)]);
      const anomalies = again.db.prepare('SELECT reason FROM anomaly WHERE seq = ?').all(again.seq);
      expect(anomalies).toEqual(reasons.map((reason) => ({ reason })));
    }),
    { numRuns: runs({ fast: 12, full: 24 }) },
  );
});

test('a preview shows the state after its events, and restores the one before', () => {
  const writer = new ChainWriter();
  const records = [writer.open(), ...fleetHistory(4, 30).map((events) => writer.add(events))];
  const snapshot = folded(records);
  const before = stateOf(snapshot);
  const context = eventContext({ seq: snapshot.seq + 1, at: '2026-01-01T00:00:32.000Z', by: 'operator' });
  const kind = 'previewed';
  const shown = snapshot.stateAt({ kind, events: [key], context }, ({ db }) => {
    const events = [known('key.revoked', { id: 'key-x' })];
    snapshot.stateAt({ kind, events, context }, () => undefined);
    expect(db.prepare("SELECT count(*) AS n FROM api_key WHERE id = 'key-x'").get()).toEqual({ n: 1 });
    return snapshot.digests();
  });
  expect(stateOf(snapshot)).toEqual(before);
  snapshot.apply([writer.add([key])]);
  expect(shown).toEqual(snapshot.digests());
});

test('a preview whose reader throws restores the previous state', () => {
  const snapshot = folded(recordsOf(fleetHistory(4, 30)));
  const before = stateOf(snapshot);
  const context = eventContext({ seq: 99, at: '', by: 'operator' });
  expect(() =>
    snapshot.stateAt({ kind: 'previewed', events: [key], context }, () => {
      throw new Error('of the reader');
    }),
  ).toThrow('of the reader');
  expect(stateOf(snapshot)).toEqual(before);
});

test('if a statement fails, its slice is undone, and the same records can be folded afterwards', () => {
  const records = recordsOf(fleetHistory(8, 40));
  const snapshot = folded(records.slice(0, 20));
  const before = stateOf(snapshot);
  snapshot.db.exec(
    `CREATE TEMP TRIGGER fails BEFORE UPDATE ON position BEGIN SELECT RAISE(ABORT, 'no'); END`,
  );
  expect(() => snapshot.apply(records.slice(20))).toThrow('no');
  expect(stateOf(snapshot)).toEqual(before);
  snapshot.db.exec('DROP TRIGGER fails');
  snapshot.apply(records.slice(20));
  expect(stateOf(snapshot)).toEqual(stateOf(folded(records)));
});

const later: StoredEvent = { type: 'galaxy.created', v: 1, critical: true, data: { id: 'andromeda' } };

test.each([
  ['an unknown type', later],
  ['a later version of a known type', { type: 'key.revoked', v: 2, critical: true, data: { id: 'key-x' } }],
  ['a type named like an inherited member', { ...later, type: 'constructor' }],
])('a critical event halts the fold before its commit: %s', (_, event) => {
  const writer = new ChainWriter();
  const good = [writer.open(), ...fleetHistory(9, 20).map((events) => writer.add(events))];
  const bad = writer.addStored([{ type: 'no_op', v: 1, critical: false, data: {} }, event]);
  const after = writer.add([key]);
  const snapshot = folded([...good, bad, after]);
  const plain = folded(good);
  expect(snapshot.halt?.seq).toBe(plain.seq + 1);
  expect({ ...(stateOf(snapshot) as object), halt: undefined }).toEqual(stateOf(plain));
  expect(snapshot.apply([after])).toEqual({ consumed: 0, accepted: [] });
});

test('a halt names the event type only if it is printable', () => {
  for (const [type, shown] of [
    ['galaxy.created', 'galaxy.created'],
    ['a\nb', '(unprintable)'],
  ]) {
    const writer = new ChainWriter();
    const snapshot = folded([writer.open(), writer.addStored([{ ...later, type: type as string }])]);
    expect(snapshot.halt?.reason).toBe(`event type ${shown} is not known to this build`);
  }
});

test('a halt is forgotten if its slice could not be stored', () => {
  const writer = new ChainWriter();
  const records = [writer.open(), writer.addStored([later])];
  const snapshot = memorySnapshot();
  snapshot.db.exec(
    `CREATE TEMP TRIGGER fails BEFORE UPDATE ON position BEGIN SELECT RAISE(ABORT, 'no'); END`,
  );
  expect(() => snapshot.apply(records)).toThrow('no');
  expect(snapshot.halt).toBeUndefined();
  snapshot.db.exec('DROP TRIGGER fails');
  expect(snapshot.apply(records).consumed).toBe(1);
  expect(snapshot.halt?.seq).toBe(2);
});

test('an unknown event that is not critical is kept unchanged and skipped', () => {
  const writer = new ChainWriter();
  const event = { ...later, critical: false };
  const snapshot = folded([writer.open(), writer.addStored([event, { ...event, v: 2 ** 40 }])]);
  expect(snapshot.halt).toBeUndefined();
  expect(snapshot.seq).toBe(2);
  const data = JSON.stringify(event.data);
  expect(snapshot.db.prepare('SELECT * FROM unread_event').all()).toEqual([
    { seq: 2, idx: 0, type: 'galaxy.created', v: 1, outcome: 'unknown', data },
    { seq: 2, idx: 1, type: 'galaxy.created', v: 2 ** 31, outcome: 'unknown', data },
  ]);
});

test('a known event with impossible data is kept as malformed and skipped, even if critical', () => {
  const writer = new ChainWriter();
  const bad = { type: 'key.revoked', v: 1, critical: true, data: { id: 7 } };
  const snapshot = folded([writer.open(), writer.addStored([bad])]);
  expect(snapshot.seq).toBe(2);
  expect(snapshot.db.prepare('SELECT outcome, data FROM unread_event').all()).toEqual([
    { outcome: 'malformed', data: '{"id":7}' },
  ]);
});

test('fields added by a later writer are ignored', () => {
  const writer = new ChainWriter();
  const data = { ...key.data, colour: 'blue' };
  const snapshot = folded([
    writer.open(),
    writer.addStored([{ type: 'key.created', v: 1, critical: true, data }]),
  ]);
  const plain = new ChainWriter();
  expect(snapshot.digests()).toEqual(folded([plain.open(), plain.add([key])]).digests());
});

function withCheckpoint(digestsOf: (snapshot: Snapshot) => Record<string, string>, version = foldVersion) {
  const writer = new ChainWriter();
  const snapshot = folded([writer.open(), ...fleetHistory(10, 30).map((events) => writer.add(events))]);
  const digests = digestsOf(snapshot);
  snapshot.apply([writer.add([known('checkpoint', { foldVersion: version, digests }), key])]);
  return snapshot;
}
const wrong = '0'.repeat(31).concat('1');

test('a checkpoint with our digests is not a divergence', () => {
  expect(withCheckpoint((snapshot) => snapshot.digests()).divergedAt).toBeNull();
});

test.each(tableNames)('a checkpoint with another digest of %s records a divergence at its commit', (name) => {
  const snapshot = withCheckpoint((own) => ({ ...own.digests(), [name]: wrong }));
  expect(snapshot.divergedAt).toBe(32);
});

test('a checkpoint without one of the tables records a divergence', () => {
  expect(withCheckpoint(() => ({})).divergedAt).toBe(32);
});

test('a checkpoint of another fold version is not compared', () => {
  expect(withCheckpoint((own) => ({ ...own.digests(), tier: wrong }), foldVersion + 1).divergedAt).toBeNull();
});

test('a command is found by its id, and its commit by its record', () => {
  const writer = new ChainWriter();
  const snapshot = folded([writer.open(), writer.add([key])]);
  expect(snapshot.journal.commandOf('command-2')).toEqual({
    seq: 2,
    id: 'command-2',
    hash: null,
    subject: 'key-x',
    record: writer.head.hash,
  });
  expect(snapshot.journal.commandAt(2)).toEqual(snapshot.journal.commandOf('command-2'));
  expect(snapshot.journal.commandOf('command-3')).toBeUndefined();
});

test('in a signed log, only signed records count', () => {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  const signer = {
    publicKey: publicKey.export({ type: 'spki', format: 'der' }).toString('base64'),
    sign: (raw: Uint8Array) => sign(null, raw, privateKey),
  };
  const writer = new ChainWriter({ signer });
  const records = [writer.open(), ...fleetHistory(11, 20).map((events) => writer.add(events))];
  expect(folded(records).seq).toBe(21);
  const stripped = records.map((record, index) => (index < 15 ? record : { ...record, signature: null }));
  expect(folded(stripped).seq).toBe(15);
});
