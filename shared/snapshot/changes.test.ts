/**
 * Tests changes released in waves with random histories. Every fold of one log must end in the same state. The base must
 * equal the state of a reader that does not know changes. A gateway must read either the base, or the base with all events of
 * the open change.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { type KnownEvent, type StoredEvent, toStored } from '../../schemas/events/events.ts';
import { runs, scaledMs } from '../../test/support/budget.ts';
import { ChainWriter, fleetHistory, known, randomEvent } from '../../test/support/commits.ts';
import { folderOfFile } from '../../test/support/folders.ts';
import { type Random, seededRandom } from '../../test/support/random.ts';
import type { LogRecord } from '../log/core/control-log.ts';
import { stagedEventTypes } from './effects-changes.ts';
import { memorySnapshot, openOrRebuild } from './open-snapshot.ts';
import { overlaidTables, parseEvents } from './overlay.ts';
import type { Snapshot } from './snapshot.ts';
import { type RowOf, type TableName, tableNames, tableSpecs } from './tables.ts';
import { verify } from './verify.ts';
import type { State } from './views.ts';
import { firstWave } from './waves.ts';

const folder = folderOfFile('changes');

const ofChanges: ReadonlySet<TableName> = new Set(['change', 'closed_change', 'overlay']);
const baseTables = tableNames.filter((name) => !ofChanges.has(name));
const columnsOf = (table: TableName) => Object.keys(tableSpecs[table].columns).join(', ');

function baseDigests(snapshot: Snapshot): string[] {
  const digests = snapshot.digests();
  return baseTables.map((name) => `${name} ${digests[name]}`);
}

function historyWithChanges(seed: number, commits: number): KnownEvent[][] {
  const random = seededRandom(seed);
  let open: { readonly id: string; readonly events: readonly KnownEvent[]; wave: number } | undefined;
  return fleetHistory(seed, commits).map((events, index) => {
    const plain = events.filter(({ type }) => !type.startsWith('change.'));
    const drawn = random();
    if (!open && drawn < 0.3) {
      open = { id: `c${index}`, events: stagedAtRandom(random), wave: 0 };
      return [stagedEvent(open.id, open.events)];
    }
    if (!open || drawn > 0.35) return plain.length > 0 ? plain : [known('no_op', {})];
    const { id: change, events: staged } = open;
    if (drawn < 0.2 && open.wave < 3)
      return [known('change.advanced', { change, wave: ++open.wave }), ...plain];
    open = undefined;
    return drawn < 0.27
      ? [known('change.withdrawn', { change, reason: 'by hand' }), ...plain]
      : [known('change.completed', { change }), ...staged];
  });
}

function stagedAtRandom(random: Random): KnownEvent[] {
  const count = 1 + Math.floor(random() * 4);
  return Array.from({ length: count }, () => {
    const type = stagedEventTypes[Math.floor(random() * stagedEventTypes.length)] ?? 'model.set';
    return randomEvent(random, type);
  });
}

function stagedEvent(change: string, events: readonly KnownEvent[]): KnownEvent {
  return known('change.staged', {
    ...{ change, events: events.map(toStored), holdSeconds: 300 },
    waves: [{ gateways: ['gw-1'] }, { share: 0.5 }, { share: 1 }],
    watch: { refusals: 1, errors: 1, least: 50 },
  });
}

/** Gives events about changes an unknown type, so that the fold skips them like a build from before changes existed. */
function unknown(stored: StoredEvent): StoredEvent {
  return stored.type.startsWith('change.') ? { ...stored, type: `later.${stored.type}` } : stored;
}

function logsOf(history: readonly (readonly KnownEvent[])[]): [LogRecord[], LogRecord[]] {
  const [known, older] = [new ChainWriter(), new ChainWriter()];
  const records = [known.open(), ...history.map((events) => known.add(events))];
  const asOlder = [
    older.open(),
    ...history.map((events) => older.addStored(events.map(toStored).map(unknown))),
  ];
  return [records, asOlder];
}

const definitionsIn = ({ db }: State): unknown[] =>
  overlaidTables.map((name) =>
    db.prepare(`SELECT ${columnsOf(name)} FROM ${name} ORDER BY ${tableSpecs[name].key.join(', ')}`).all(),
  );

/** Returns the rows of definitions as the gateway reads them, and whether the open change has reached the gateway. */
function effectiveRows(snapshot: Snapshot, gateway: string): [isInside: boolean, rows: unknown[]] {
  return snapshot.stateAt({ kind: 'present', view: { gateway } }, (state) => [
    state.overlaid !== undefined,
    definitionsIn(state),
  ]);
}

function foldedRows(snapshot: Snapshot, events: readonly KnownEvent[]): unknown[] {
  const context = { seq: snapshot.seq + 1, atMs: 0, by: 'operator' };
  return snapshot.stateAt({ kind: 'previewed', events, context }, definitionsIn);
}

/** Opens a copy of another snapshot, as a starting gateway does. */
function copyOf(snapshot: Snapshot, path: string): Snapshot {
  rmSync(path, { force: true });
  snapshot.db.exec(`VACUUM INTO '${path}'`);
  return openOrRebuild(path).snapshot;
}

function openChange(snapshot: Snapshot): RowOf<'change'> | undefined {
  return snapshot.db.prepare<[], RowOf<'change'>>('SELECT * FROM change').get();
}

/** Whether the record revokes a key. Revocations take effect in the base, and therefore on all gateways at once. */
function isRevocation(records: readonly LogRecord[], at: number): boolean {
  return records[at]?.value.includes('"key.revoked"') ?? false;
}

const histories = runs({ fast: 4, full: 10 });
const commits = 60;

test(
  'every fold of a log with changes gives the same state, and base rows are as without changes',
  () => {
    const seen = { open: 0, overlay: 0, inside: 0, outside: 0, impossible: 0, revoked: 0 };
    for (let seed = 1; seed <= histories; seed++) {
      const [records, asOlder] = logsOf(historyWithChanges(seed, commits));
      const [byOne, older] = [memorySnapshot(), memorySnapshot()];
      const path = join(folder, `${seed}.db`);
      let fromFile = openOrRebuild(path).snapshot;
      let copied = memorySnapshot();
      for (const [at, record] of records.entries()) {
        byOne.apply([record]);
        fromFile.apply([record]);
        copied.apply([record]);
        older.apply(asOlder.slice(at, at + 1));
        if (at % 13 === seed % 13) {
          fromFile.close();
          fromFile = openOrRebuild(path).snapshot;
        }
        if (at % 17 === seed % 17) {
          copied.close();
          copied = copyOf(fromFile, `${path}.copy`);
        }
        for (const gateway of [fromFile, copied])
          expect(gateway.digests(), `seed ${seed}, position ${byOne.seq}`).toEqual(byOne.digests());
        expect(baseDigests(older), `seed ${seed}, position ${byOne.seq}`).toEqual(baseDigests(byOne));
        const change = openChange(byOne);
        if (change === undefined) continue;
        seen.open++;
        seen.overlay += Number(byOne.db.prepare('SELECT count(*) FROM overlay').pluck().get());
        if (change.passed_over > 0) {
          seen.impossible++;
          continue;
        }
        seen.revoked += isRevocation(records, at) ? 1 : 0;
        const [base, folded] = [definitionsIn(older), foldedRows(older, parseEvents(change))];
        for (const [each, gateway] of [byOne, fromFile, copied].entries()) {
          const [isInside, rows] = effectiveRows(gateway, `gw-${each + 1}`);
          seen[isInside ? 'inside' : 'outside']++;
          expect(rows, `seed ${seed}, position ${byOne.seq}`).toEqual(isInside ? folded : base);
        }
      }
      const atOnce = memorySnapshot();
      atOnce.apply(records);
      expect(atOnce.digests()).toEqual(byOne.digests());
      expect(verify(atOnce.db).differing).toEqual([]);
      for (const each of [byOne, older, atOnce, fromFile, copied]) each.close();
    }
    for (const count of Object.values(seen)) expect(count).toBeGreaterThan(0);
  },
  scaledMs(900_000),
);

test('no stageable event writes a table without an overlay', () => {
  const allowed: ReadonlySet<string> = new Set(overlaidTables);
  const writer = new ChainWriter();
  const snapshot = memorySnapshot();
  snapshot.apply([writer.open(), ...fleetHistory(5, 200).map((events) => writer.add(events))]);
  const random = seededRandom(5);
  for (const type of stagedEventTypes) {
    for (let draw = 0; draw < 30; draw++) {
      const context = { seq: 1, atMs: 0, by: '' };
      const before = snapshot.digests();
      const event = randomEvent(random, type);
      const after = snapshot.stateAt({ kind: 'previewed', events: [event], context }, () =>
        snapshot.digests(),
      );
      const written = tableNames.filter(
        (name) => before[name] !== after[name] && name !== 'overlay' && name !== 'change',
      );
      expect(
        written.filter((name) => !allowed.has(name)),
        type,
      ).toEqual([]);
    }
  }
});

test('a gateway is in a wave by its name or by the share, and stays in all later waves', () => {
  const waves = [{ gateways: ['gw-1'] }, { share: 0.1 }, { share: 0.5 }, { share: 1 }];
  const gateways = Array.from({ length: 1000 }, (_, index) => `gw-${index + 1}`);
  const first = gateways.map((name) => firstWave('17', waves, name));
  expect(first[0]).toBe(1);
  expect(first).toEqual(gateways.map((name) => firstWave('17', waves, name)));
  expect(first).not.toEqual(gateways.map((name) => firstWave('18', waves, name)));
  const upTo = (wave: number) => first.filter((each) => each !== undefined && each <= wave).length;
  expect(upTo(2)).toBeGreaterThan(60);
  expect(upTo(2)).toBeLessThan(140);
  expect(upTo(3)).toBeGreaterThan(440);
  expect(upTo(3)).toBeLessThan(560);
  expect(upTo(4)).toBe(1000);
  expect(firstWave('17', [{ gateways: ['gw-1'] }], 'gw-2')).toBeUndefined();
});
