/**
 * Tests that the fold accepts any commit. Whatever junk a commit contains, the fold must never throw, and must fold the
 * events around the junk as if the junk were absent. Otherwise one bad event would stop every gateway for good.
 */

import fc from 'fast-check';
import { expect, test } from 'vitest';
import { eventTypeNames, isEventType } from '../../schemas/events/event-definitions.ts';
import { readEvent, type StoredEvent, toStored } from '../../schemas/events/events.ts';
import { runs } from '../../test/support/budget.ts';
import { ChainWriter, fleetHistory, known, randomEvent, sha256 } from '../../test/support/commits.ts';
import { seededRandom } from '../../test/support/random.ts';
import { eventContext } from './fold-input.ts';
import { memorySnapshot } from './open-snapshot.ts';
import type { Snapshot } from './snapshot.ts';
import { tableNames } from './tables.ts';
import { verify } from './verify.ts';

const oddTexts = fc.oneof(
  fc.constantFrom(
    '',
    '\0',
    'a\0b',
    '\ud800',
    '\udfff x',
    `${'a'.repeat(199)}😀`,
    '__proto__',
    'constructor',
    'toString',
    'x'.repeat(10_000),
    '*',
    'anonymous',
    'pool',
    "'; DROP TABLE tier; --",
    '🦊',
    '\u2028',
    'null',
    '../..',
  ),
  fc.string({ unit: 'binary', maxLength: 30 }),
);
const oddNumbers = fc.constantFrom(
  0,
  -0,
  1,
  -1,
  0.1,
  1e21,
  -1e21,
  5e-324,
  2 ** 31,
  2 ** 53,
  2 ** 53 - 1,
  -(2 ** 53) + 1,
  2 ** 64,
  1.7e308,
);
const nested: unknown = JSON.parse('['.repeat(500) + ']'.repeat(500));
/** Values that JSON.parse can return, including own properties named `__proto__`. */
const oddValues: fc.Arbitrary<unknown> = fc.oneof(
  oddTexts,
  oddNumbers,
  fc.constantFrom(null, true, false, nested, [], {}, JSON.parse('{"__proto__":{"id":"x"}}')),
  fc.jsonValue({ maxDepth: 3 }),
  fc.array(oddTexts, { maxLength: 5 }),
  fc.dictionary(oddTexts, oddTexts, { maxKeys: 3, noNullPrototype: true }),
);

/** Data of a known event type, with some fields replaced, missing or added. */
const bent = fc
  .tuple(
    fc.constantFrom(...eventTypeNames),
    fc.nat(),
    fc.array(fc.tuple(fc.nat({ max: 7 }), oddValues), { minLength: 1, maxLength: 2 }),
    fc.option(fc.tuple(oddTexts, oddValues), { nil: undefined }),
  )
  .map(([type, seed, changes, extra]) => {
    const data = { ...randomEvent(seededRandom(seed), type).data } as Record<string, unknown>;
    const fields = Object.keys(data);
    for (const [at, value] of changes) {
      const field = fields[at % Math.max(1, fields.length)];
      if (field !== undefined) data[field] = value;
    }
    if (extra) Object.defineProperty(data, extra[0], { value: extra[1], enumerable: true });
    return { type: type as string, data: data as unknown };
  });
/** Events with odd fields that a schema may accept, each field filled up to the allowed maximum. */
const brim: fc.Arbitrary<{ type: string; data: unknown }> = fc
  .tuple(oddTexts, oddTexts, oddNumbers, fc.nat({ max: 5 }))
  .map(([a, b, n, which]) => {
    const node = { id: 'node-1', place: { kind: 'organisation', id: 'org-1' }, dialect: 'vllm', agent: true };
    const found = { id: 'node-1', owner: 'control-1', generation: 1, up: true };
    const shapes = [
      {
        type: 'node.registered',
        data: { ...node, url: `http://h/${a}`, models: { 'echo-small': a, constructor: b } },
      },
      {
        type: 'node.health_changed',
        data: {
          ...found,
          models: [a, b, a],
          windows: { [a]: 1, [b]: n },
          imageModels: [b, b],
          rerankModels: [b],
        },
      },
      { type: 'usage.adjusted', data: { organisation: 'org-1', period: '2026-01-01', tokens: n } },
      {
        type: 'tier.set',
        data: { id: 'constructor', rank: n, concurrency: n, models: ['__proto__', 'toString'] },
      },
      { type: 'organisation.set', data: { id: 'org-1', name: a, tier: b, anchor: '2026-01-01' } },
      {
        type: 'model.set',
        data: { id: '__proto__', family: a, added: `2026-01-01T00:00:00.${'1'.repeat(400)}Z`, weight: 1 },
      },
    ];
    return shapes[which] as { type: string; data: unknown };
  });
const foreign = fc.record({ type: fc.oneof(oddTexts, fc.constantFrom(...eventTypeNames)), data: oddValues });

/** Junk events that a reader may skip without halting. Another test covers critical events of unknown types. */
const junkEvent: fc.Arbitrary<StoredEvent> = fc
  .tuple(
    fc.oneof(bent, brim, foreign),
    fc.oneof({ weight: 9, arbitrary: fc.constant(1) }, { weight: 1, arbitrary: fc.constantFrom(2, 2 ** 40) }),
  )
  .map(([{ type, data }, v]) => ({
    type,
    v,
    critical: v === 1 && isEventType(type),
    data,
  }));
const junkTime = fc.oneof(oddTexts, fc.constantFrom('2026-01-01', 'now', '+275760-09-13T00:00:00.001Z'));

function rowsOf(snapshot: Snapshot): unknown[] {
  return tableNames.map((name) => snapshot.db.prepare(`SELECT * FROM ${name}`).all());
}

/** Calls the fold directly, so that no other code can hide an exception. */
function foldBare(stored: StoredEvent, snapshot: Snapshot, by: string, at: string): void {
  const read = readEvent(stored);
  if (read.outcome !== 'known') return;
  const context = eventContext({ seq: 1, at, by });
  snapshot.stateAt({ kind: 'previewed', events: [read.event], context }, () => undefined);
}

test('no junk in a commit makes the fold throw, and rows and digests still match', {
  timeout: 120_000,
}, () => {
  const writer = new ChainWriter();
  const snapshot = memorySnapshot();
  snapshot.apply([writer.open(), ...fleetHistory(1, 60).map((events) => writer.add(events))]);
  const numRuns = runs({ fast: 100, full: 200 });
  let events = 0;
  fc.assert(
    fc.property(fc.array(junkEvent, { minLength: 8, maxLength: 12 }), oddTexts, junkTime, (junk, by, at) => {
      for (const stored of junk) foldBare(stored, snapshot, by, at);
      const { accepted } = snapshot.apply([writer.addStored(junk, by, at)]);
      expect(accepted).toHaveLength(1);
      expect(snapshot.halt).toBeUndefined();
      expect(verify(snapshot.db).differing).toEqual([]);
      events += junk.length;
    }),
    { numRuns },
  );
  expect(events).toBeGreaterThan(8 * numRuns);
});

/** Junk events that readers cannot parse, so they never change a row. */
const unreadable = junkEvent.filter((stored) => readEvent(stored).outcome !== 'known');

test('valid events among junk give the same rows and digests as alone', { timeout: 60_000 }, () => {
  fc.assert(
    fc.property(
      fc.nat(),
      fc.array(fc.array(unreadable, { maxLength: 8 }), { minLength: 30, maxLength: 30 }),
      (seed, junk) => {
        const history = fleetHistory(seed, junk.length);
        const [alone, mixed] = [memorySnapshot(), memorySnapshot()];
        const [plain, dirty] = [new ChainWriter(), new ChainWriter()];
        alone.apply([plain.open(), ...history.map((events) => plain.add(events))]);
        const opened = dirty.open();
        const records = history.flatMap((events, index) => {
          const stored = events.map(toStored);
          const [before = [], after = []] = [junk[index]?.slice(0, 4), junk[index]?.slice(4)];
          return [
            dirty.addStored([...before, ...stored, ...after]),
            dirty.junk(JSON.stringify(before).slice(0, 99)),
          ];
        });
        mixed.apply([opened, ...records]);
        expect(mixed.seq).toBe(alone.seq);
        expect(mixed.digests()).toEqual(alone.digests());
        expect(rowsOf(mixed)).toEqual(rowsOf(alone));
        for (const snapshot of [alone, mixed]) snapshot.close();
      },
    ),
    { numRuns: runs({ fast: 15, full: 40 }) },
  );
});

const oddNames = ['\ud800', 'a\0b', '__proto__', 'constructor', '🦊'.repeat(100), '\u2028', ' '];

test.each(oddNames.map((name) => [JSON.stringify(name), name]))(
  'rows and digests still match if a node serves a model as %s',
  (_, name) => {
    const writer = new ChainWriter();
    const snapshot = memorySnapshot();
    const place = { kind: 'organisation' as const, id: 'org-1' };
    const url = `http://127.0.0.1/${name}`;
    const models = { echo: name, constructor: name };
    snapshot.apply([
      writer.open(),
      writer.add([
        known('node.registered', { id: 'node-1', place, url, dialect: 'vllm', models, agent: true }),
        known('node.joined', { id: 'node-1', owner: 'control-1', generation: 1 }),
        known('node.health_changed', {
          id: 'node-1',
          owner: 'control-1',
          generation: 1,
          up: true,
          models: [name],
          windows: JSON.parse(`{${JSON.stringify(name)}:4096}`),
          imageModels: [name],
          rerankModels: [name],
        }),
      ]),
    ]);
    expect(
      snapshot.db.prepare(`SELECT served, takes_images, reranks FROM routes WHERE model = 'echo'`).all(),
    ).toEqual([{ served: name.toWellFormed(), takes_images: 1, reranks: 1 }]);
    expect(verify(snapshot.db).differing).toEqual([]);
    snapshot.apply([writer.add([known('node.removed', { id: 'node-1' })])]);
    expect(snapshot.digests()).toEqual(memorySnapshot().digests());
  },
);

test('rows and digests still match for a name cut in the middle of a character', () => {
  const writer = new ChainWriter();
  const snapshot = memorySnapshot();
  const data = { id: 'key-1', organisation: 'org-1', name: 'k', hash: sha256('k') };
  const key = known('key.created', { ...data, expires: 'never', expiresAt: null });
  snapshot.apply([writer.open(), writer.add([key], `${'a'.repeat(199)}😀`)]);
  expect(verify(snapshot.db).differing).toEqual([]);
});

test.each(['2026-03-04T05:06:07', 'Wed Mar 04 2026 05:06:07', '2026-03-04', '', 'x'])(
  'a time written as "%s" has no time zone and is ignored everywhere',
  (at) => {
    expect(eventContext({ seq: 1, at, by: 'x' }).atMs).toBe(0);
  },
);

test('data nested too deeply to be printed is skipped, and recorded without its text', () => {
  const writer = new ChainWriter();
  const snapshot = memorySnapshot();
  const deep = `${'['.repeat(200_000)}${']'.repeat(200_000)}`;
  snapshot.apply([writer.open()]);
  const template = new ChainWriter();
  template.open();
  const event = { type: 'later.kind', v: 1, critical: false, data: 'DEEP' };
  const text = template.addStored([event]).value.toString().replace('"DEEP"', deep);
  snapshot.apply([writer.addRaw(Buffer.from(text))]);
  expect(snapshot.seq).toBe(2);
  expect(snapshot.db.prepare('SELECT type, data FROM unread_event').all()).toEqual([
    { type: 'later.kind', data: null },
  ]);
});
