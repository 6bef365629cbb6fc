/** Tests copies of a real state: simultaneous requests must share one copy, and each caller is limited. */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openExisting, openOrRebuild } from '../../shared/snapshot/open-snapshot.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { ChainWriter, known } from '../../test/support/commits.ts';
import { folderOfFile } from '../../test/support/folders.ts';
import { SnapshotCopies } from './snapshot-copies.ts';

const dir = folderOfFile('copies');
const state = join(dir, 'state.db');
const folder = join(dir, 'copies');
let snapshot: Snapshot;
beforeAll(() => {
  snapshot = openOrRebuild(state).snapshot;
  writer = new ChainWriter();
  snapshot.apply([writer.open(), writer.add([known('tier.set', { id: 'T1', rank: 1, models: '*' })])]);
});
afterAll(() => {
  snapshot.close();
});
const copies = (more: object = {}): SnapshotCopies =>
  new SnapshotCopies({ state, folder, position: () => snapshot.seq, ...more });
const files = (): number => readdirSync(folder).length;
const operator = { kind: 'operator' } as const;
const present = new AbortController().signal;

test('a copy is the state at one moment, readable only by its owner', async () => {
  const copy = await copies().acquire(operator, present);
  expect(copy).toMatchObject({ log: snapshot.log, seq: snapshot.seq, digest: snapshot.digest() });
  expect(copy.sha256).toBe(createHash('sha256').update(readFileSync(copy.path)).digest('hex'));
  expect(copy.bytes).toBe(statSync(copy.path).size);
  expect(statSync(copy.path).mode & 0o777).toBe(0o600);
  expect(statSync(folder).mode & 0o777).toBe(0o700);
  const opened = openExisting(copy.path, { readOnly: true });
  expect(opened.digests()).toEqual(snapshot.digests());
  opened.close();
  copy.release();
});

test('a state whose position was changed by hand is not copied until it is intact again', async () => {
  const { seq } = snapshot;
  snapshot.db.exec('UPDATE position SET seq = seq + 1');
  await expect(copies().acquire(operator, present)).rejects.toThrow('position does not match its checksum');
  expect(files()).toBe(0);
  snapshot.db.prepare('UPDATE position SET seq = ?').run(seq);
  (await copies().acquire(operator, present)).release();
});

const gateway = (address: string) => ({ kind: 'gateway', address }) as const;
const isBusy = { type: 'Busy', status: 503 };
let writer: ChainWriter;
function move(): void {
  snapshot.apply([writer.add([known('tier.set', { id: 'T1', rank: snapshot.seq % 1000, models: '*' })])]);
}

test('fifty gateways at one address read the same copy', async () => {
  const shared = copies();
  const all = await Promise.all(
    Array.from({ length: 50 }, () => shared.acquire(gateway('192.0.2.1'), present)),
  );
  expect(new Set(all.map(({ path }) => path)).size).toBe(1);
  expect(files()).toBe(1);
  for (const copy of all) copy.release();
  // The copy must stay available for later callers.
  expect((await shared.acquire(gateway('192.0.2.2'), present)).path).toBe(all[0]?.path);
  expect(files()).toBe(1);
});

test('a gateway’s copy is at most a minute and 1,000 commits old, and the operator’s is current', async () => {
  const clock = { ms: 0 };
  const shared = copies({ now: () => clock.ms });
  const first = await shared.acquire(gateway('192.0.2.1'), present);
  move();
  expect((await shared.acquire(gateway('192.0.2.1'), present)).path).toBe(first.path);
  const exact = await shared.acquire(operator, present);
  expect([first.seq, exact.seq]).toEqual([snapshot.seq - 1, snapshot.seq]);
  // However long ago the copy was made, it is still current because nothing has changed.
  clock.ms += 3_600_000;
  expect((await shared.acquire(gateway('192.0.2.1'), present)).path).toBe(exact.path);
  move();
  const later = await shared.acquire(gateway('192.0.2.1'), present);
  expect(later.seq).toBe(snapshot.seq);
  const far = copies({ position: () => snapshot.seq });
  await far.acquire(gateway('192.0.2.1'), present);
  for (let commits = 0; commits <= 1000; commits++) move();
  expect((await far.acquire(gateway('192.0.2.1'), present)).seq).toBe(snapshot.seq);
});

test('an older copy is removed once nobody reads it, and at most three exist', async () => {
  const shared = copies();
  const first = await shared.acquire(operator, present);
  const reads = [first];
  for (let more = 0; more < 2; more++) {
    move();
    reads.push(await shared.acquire(operator, present));
  }
  expect(files()).toBe(3);
  move();
  await expect(shared.acquire(operator, present)).rejects.toMatchObject(isBusy);
  expect((await shared.acquire(gateway('192.0.2.1'), present)).path).toBe(reads[2]?.path);
  first.release();
  first.release();
  expect(files()).toBe(2);
  const latest = await shared.acquire(operator, present);
  expect(latest.seq).toBe(snapshot.seq);
  for (const copy of [...reads, latest]) copy.release();
});

test('downloads are limited per address, for all gateways and for the operator, separately', async () => {
  const shared = copies({ downloadsMax: { address: 2, gateways: 3, operator: 1 } });
  const [one, other] = [gateway('192.0.2.1'), gateway('192.0.2.2')];
  const held = [await shared.acquire(one, present), await shared.acquire(one, present)];
  await expect(shared.acquire(one, present)).rejects.toMatchObject(isBusy);
  held.push(await shared.acquire(other, present));
  await expect(shared.acquire(other, present)).rejects.toMatchObject(isBusy);
  held.push(await shared.acquire(operator, present));
  await expect(shared.acquire(operator, present)).rejects.toMatchObject(isBusy);
  for (const copy of held) copy.release();
  for (const who of [one, one, other, operator]) await shared.acquire(who, present);
});

test('a failure leaves no file and no counted download, and the next attempt may succeed', async () => {
  const shared = new SnapshotCopies({
    ...{ state: join(dir, 'nothing.db'), folder, position: () => 1 },
    downloadsMax: { operator: 2 },
  });
  for (let times = 0; times < 2; times++) {
    const two = [shared.acquire(operator, present), shared.acquire(operator, present)];
    for (const taken of two) await expect(taken).rejects.not.toMatchObject(isBusy);
  }
  expect(files()).toBe(0);
  expect(existsSync(join(dir, 'nothing.db'))).toBe(false);
});

test('a client that disconnects while the copy is made gets none, and others still get it', async () => {
  const shared = copies({ downloadsMax: { operator: 2 } });
  const client = new AbortController();
  const taken = shared.acquire(operator, client.signal);
  const other = shared.acquire(operator, present);
  client.abort(new Error('aborted'));
  await expect(taken).rejects.toThrow('aborted');
  (await other).release();
  await expect(shared.acquire(operator, client.signal)).rejects.toThrow('aborted');
  for (let times = 0; times < 2; times++) await shared.acquire(operator, present);
});

test('files left by a killed process are removed at the start', () => {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'left.db'), 'left');
  copies();
  expect(readdirSync(folder)).toEqual([]);
});
