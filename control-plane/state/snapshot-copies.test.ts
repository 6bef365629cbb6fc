/** Copies of a real state, one at a time. */
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openExisting, openOrRebuild } from '../../shared/snapshot/open-snapshot.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { known, recordsOf } from '../../test/support/commits.ts';
import { SnapshotCopies } from './snapshot-copies.ts';

const dir = mkdtempSync(join(tmpdir(), 'headgate-copies-'));
const state = join(dir, 'state.db');
const folder = join(dir, 'copies');
let snapshot: Snapshot;
beforeAll(() => {
  snapshot = openOrRebuild(state).snapshot;
  snapshot.apply(recordsOf([[known('tier.set', { id: 'T1', rank: 1, models: '*' })]]));
});
afterAll(() => {
  snapshot.close();
  rmSync(dir, { recursive: true, force: true });
});
const copies = (more: object = {}): SnapshotCopies => new SnapshotCopies({ state, folder, ...more });
const present = new AbortController().signal;
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('a copy is the state of one moment, readable by its owner only, and removed on release', async () => {
  const copy = await copies().acquire(present);
  expect(copy).toMatchObject({ log: snapshot.log, seq: snapshot.seq, digest: snapshot.digest() });
  expect(copy.sha256).toBe(createHash('sha256').update(readFileSync(copy.path)).digest('hex'));
  expect(copy.bytes).toBe(statSync(copy.path).size);
  expect(statSync(copy.path).mode & 0o777).toBe(0o600);
  expect(statSync(folder).mode & 0o777).toBe(0o700);
  const opened = openExisting(copy.path, { readOnly: true });
  expect(opened.digests()).toEqual(snapshot.digests());
  opened.close();
  copy.release();
  expect(readdirSync(folder)).toEqual([]);
});

test('of a state whose position was changed by hand there is no copy, until it is whole again', async () => {
  const { seq } = snapshot;
  snapshot.db.exec('UPDATE position SET seq = seq + 1');
  await expect(copies().acquire(present)).rejects.toThrow('position does not match its checksum');
  expect(readdirSync(folder)).toEqual([]);
  snapshot.db.prepare('UPDATE position SET seq = ?').run(seq);
  (await copies().acquire(present)).release();
});

test('there is one copy at a time, until it is released, and waiters get theirs in order', async () => {
  const shared = copies();
  const first = await shared.acquire(present);
  let began = 0;
  const others = [1, 2, 3].map(async () => {
    const copy = await shared.acquire(present);
    began++;
    expect(readdirSync(folder)).toHaveLength(1);
    await turn();
    copy.release();
    copy.release();
  });
  await turn();
  expect([began, readdirSync(folder).length]).toEqual([0, 1]);
  first.release();
  await Promise.all(others);
  expect([began, readdirSync(folder).length]).toEqual([3, 0]);
  (await shared.acquire(present)).release();
});

test('the queue is bounded in length and in time, and a waiter that aborts takes no turn', async () => {
  const shared = copies({ waitersMax: 2, waitMs: 40 });
  const first = await shared.acquire(present);
  const left = new AbortController();
  const leaving = shared.acquire(left.signal);
  const waiting = shared.acquire(present);
  await expect(shared.acquire(present)).rejects.toMatchObject({ type: 'Busy', status: 503 });
  left.abort(new Error('aborted'));
  await expect(leaving).rejects.toThrow('aborted');
  await expect(waiting).rejects.toMatchObject({ type: 'Busy' });
  first.release();
  (await shared.acquire(present)).release();
  await expect(shared.acquire(left.signal)).rejects.toThrow('aborted');
  expect(readdirSync(folder)).toEqual([]);
});

test('a failure leaves no file and starts the next waiter', async () => {
  const shared = new SnapshotCopies({ state: join(dir, 'nothing.db'), folder });
  const two = [shared.acquire(present), shared.acquire(present)];
  for (const taken of two) await expect(taken).rejects.toThrow();
  expect(readdirSync(folder)).toEqual([]);
  expect(existsSync(join(dir, 'nothing.db'))).toBe(false);
});

test('an abort during the copy leaves no file', async () => {
  const shared = copies();
  const client = new AbortController();
  const taken = shared.acquire(client.signal);
  client.abort(new Error('aborted'));
  await expect(taken).rejects.toThrow('aborted');
  expect(readdirSync(folder)).toEqual([]);
  (await shared.acquire(present)).release();
});

test('what a killed process left is removed at the start', () => {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'left.db'), 'left');
  copies();
  expect(readdirSync(folder)).toEqual([]);
});
