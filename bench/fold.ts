/**
 * How fast a long log folds into a snapshot file, how soon that file then answers its first look-up, and how large it is.
 * With it the floor: the same rows written with plain statements, without chain, schemas, journal and digests.
 * Records are made in batches outside the measured time, so memory stays bounded. `--events N` sets the log's length.
 */
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { EventData, KnownEvent } from '../schemas/events.ts';
import type { LogRecord } from '../shared/log/core/control-log.ts';
import { type Database, openDatabase } from '../shared/runtime/sqlite.ts';
import { createLookup } from '../shared/snapshot/lookup.ts';
import { openOrRebuild } from '../shared/snapshot/open-snapshot.ts';
import { type RowOf, schemaSql, type TableName, tableSpecs } from '../shared/snapshot/tables.ts';
import { verifySteps } from '../shared/snapshot/verify.ts';
import { ChainWriter } from '../test/support/commits.ts';
import { longLog } from './support/long-log.ts';

const { values } = parseArgs({ options: { events: { type: 'string', default: '1000000' } } });
const eventCount = Number(values.events);
const batchSize = 5000;
/** As the replicator folds: one transaction a slice, so that a process could serve meanwhile. */
const sliceBudgetMs = 5;
const rowsPerVerifyStep = 500;

function timed<Result>(work: () => Result): { ms: number; result: Result } {
  const beginMs = performance.now();
  const result = work();
  return { ms: performance.now() - beginMs, result };
}

/** Folds the whole log, one event a commit. */
function fold(path: string): {
  ms: number;
  slices: number;
  longestSliceMs: number;
  keys: number;
  oneHash: Buffer;
} {
  const { snapshot } = openOrRebuild(path);
  const writer = new ChainWriter({ log: 'bench' });
  snapshot.apply([writer.open()]);
  const total = { ms: 0, slices: 0, longestSliceMs: 0, keys: 0, oneHash: Buffer.alloc(0) as Buffer };
  for (const events of longLog(eventCount, batchSize)) {
    let rest: readonly LogRecord[] = events.map((event) => writer.add([event]));
    while (rest.length > 0) {
      const slice = timed(() => snapshot.apply(rest, sliceBudgetMs));
      rest = rest.slice(slice.result.consumed);
      total.ms += slice.ms;
      total.slices++;
      total.longestSliceMs = Math.max(total.longestSliceMs, slice.ms);
    }
  }
  total.ms += timed(() => snapshot.close()).ms;
  const check = openDatabase(path, { durability: 'normal', readOnly: true });
  total.keys = check.prepare('SELECT count(*) FROM api_key').pluck().get() as number;
  total.oneHash = check
    .prepare('SELECT hash FROM api_key WHERE hash IS NOT NULL LIMIT 1 OFFSET ?')
    .pluck()
    .get(total.keys >> 1) as Buffer;
  check.close();
  return total;
}

/** Writes the rows of the same events with plain statements, a transaction for each batch. */
function writePlainly(path: string): number {
  const db = openDatabase(path, { durability: 'normal' });
  db.exec(schemaSql());
  const write = plainWriter(db);
  let ms = 0;
  for (const events of longLog(eventCount, batchSize))
    ms += timed(() => {
      db.exec('BEGIN IMMEDIATE');
      for (const event of events) write(event);
      db.exec('COMMIT');
    }).ms;
  return ms + timed(() => db.close()).ms;
}

function plainWriter(db: Database): (event: KnownEvent) => void {
  const key = inserter(db, 'api_key');
  const revoke = db.prepare(`UPDATE api_key SET revoked_at = 0, revoked_by = 'operator' WHERE id = ?`);
  const member = inserter(db, 'member');
  const organisation = inserter(db, 'organisation');
  const health = db.prepare('UPDATE node SET up = ?, loaded = ? WHERE id = ?');
  return ({ type, data }) => {
    if (type === 'key.created') writeKey(data);
    else if (type === 'key.revoked') revoke.run(data.id);
    else if (type === 'member.set') member(data);
    else if (type === 'organisation.set') organisation({ ...data, suspended: 0 });
    else if (type === 'node.health_changed')
      health.run(data.up ? 1 : 0, JSON.stringify(data.models), data.id);
  };
  function writeKey({ id, hash, organisation: owner, name, expires }: EventData<'key.created'>): void {
    key({
      ...{ id, hash: Buffer.from(hash, 'hex'), organisation: owner, name, expires, expires_at: null },
      ...{ created_at: 0, created_by: 'operator', revoked_at: null, revoked_by: null },
    });
  }
}

/** By name, so that a column that a table gets later does not compile here. */
function inserter<Name extends TableName>(db: Database, name: Name): (row: RowOf<Name>) => void {
  const columns = Object.keys(tableSpecs[name].columns);
  const statement = db.prepare(
    `INSERT OR REPLACE INTO ${name} (${columns.join()}) VALUES (${columns.map((column) => `@${column}`).join()})`,
  );
  return (row) => statement.run(row);
}

/** From the path of a file to the owner of a key. */
function firstLookup(path: string, hash: Buffer): number {
  const { ms, result } = timed(() => {
    const { snapshot, rebuiltBecause } = openOrRebuild(path);
    const owner = createLookup(snapshot.db).keyOwner(hash);
    return { snapshot, rebuiltBecause, owner };
  });
  if (!result.owner) throw new Error(result.rebuiltBecause ?? 'the key is unknown');
  result.snapshot.close();
  return ms;
}

function verifyAll(path: string): { ms: number; longestStepMs: number } {
  const { snapshot } = openOrRebuild(path);
  const steps = verifySteps(snapshot.db, rowsPerVerifyStep);
  const total = { ms: 0, longestStepMs: 0 };
  for (;;) {
    const step = timed(() => steps.next());
    total.ms += step.ms;
    total.longestStepMs = Math.max(total.longestStepMs, step.ms);
    if (!step.result.done) continue;
    snapshot.close();
    if (step.result.value.differing.length > 0) throw new Error('the digests do not match the rows');
    return total;
  }
}

const folder = mkdtempSync(join(tmpdir(), 'headgate-bench-'));
try {
  const path = join(folder, 'state.db');
  const folded = fold(path);
  const plainMs = writePlainly(join(folder, 'plain.db'));
  const round = (value: number, digits = 0): number => Number(value.toFixed(digits));
  const verified = verifyAll(path);
  const figures = {
    events: eventCount,
    keys: folded.keys,
    eventsPerSecond: round((eventCount * 1000) / folded.ms),
    microsecondsPerEvent: round((folded.ms * 1000) / eventCount, 1),
    longestSliceMs: round(folded.longestSliceMs, 1),
    plainRowsPerSecond: round((eventCount * 1000) / plainMs),
    timesPlain: round(folded.ms / plainMs, 2),
    firstLookupMs: round(firstLookup(path, folded.oneHash), 1),
    verifySeconds: round(verified.ms / 1000, 1),
    longestVerifyStepMs: round(verified.longestStepMs, 1),
    bytesPerKey: round(statSync(path).size / folded.keys),
    residentMegabytes: round(process.memoryUsage.rss() / 1e6),
  };
  console.table(figures);
  console.log(JSON.stringify(figures));
} finally {
  rmSync(folder, { recursive: true });
}
