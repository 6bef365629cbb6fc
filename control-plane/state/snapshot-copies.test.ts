/** Copies of a real state, few at a time, and the limits per caller. */
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
import { until } from '../../test/support/until.ts';
import { SnapshotCopies, type SnapshotCopy } from './snapshot-copies.ts';

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
const operator = { kind: 'operator' } as const;
const present = new AbortController().signal;
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('a copy is the state of one moment, readable by its owner only, and removed on release', async () => {
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
  expect(readdirSync(folder)).toEqual([]);
});

test('of a state whose position was changed by hand there is no copy, until it is whole again', async () => {
  const { seq } = snapshot;
  snapshot.db.exec('UPDATE position SET seq = seq + 1');
  await expect(copies().acquire(operator, present)).rejects.toThrow('position does not match its checksum');
  expect(readdirSync(folder)).toEqual([]);
  snapshot.db.prepare('UPDATE position SET seq = ?').run(seq);
  (await copies().acquire(operator, present)).release();
});

test('the operator has one copy at a time, until it is released, and waiters get theirs in order', async () => {
  const shared = copies();
  const first = await shared.acquire(operator, present);
  let began = 0;
  const others = [1, 2, 3].map(async () => {
    const copy = await shared.acquire(operator, present);
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
  (await shared.acquire(operator, present)).release();
});

test('the queue is bounded in length and in time, and a waiter that aborts takes no turn', async () => {
  const shared = copies({ operatorLimits: { waitersMax: 2, waitMs: 40 } });
  const first = await shared.acquire(operator, present);
  const left = new AbortController();
  const leaving = shared.acquire(operator, left.signal);
  const waiting = shared.acquire(operator, present);
  await expect(shared.acquire(operator, present)).rejects.toMatchObject({ type: 'Busy', status: 503 });
  left.abort(new Error('aborted'));
  await expect(leaving).rejects.toThrow('aborted');
  await expect(waiting).rejects.toMatchObject({ type: 'Busy' });
  first.release();
  (await shared.acquire(operator, present)).release();
  await expect(shared.acquire(operator, left.signal)).rejects.toThrow('aborted');
  expect(readdirSync(folder)).toEqual([]);
});

test('a failure leaves no file and starts the next waiter', async () => {
  const shared = new SnapshotCopies({ state: join(dir, 'nothing.db'), folder });
  const two = [shared.acquire(operator, present), shared.acquire(operator, present)];
  for (const taken of two) await expect(taken).rejects.toThrow();
  expect(readdirSync(folder)).toEqual([]);
  expect(existsSync(join(dir, 'nothing.db'))).toBe(false);
});

test('an abort during the copy leaves no file', async () => {
  const shared = copies();
  const client = new AbortController();
  const taken = shared.acquire(operator, client.signal);
  client.abort(new Error('aborted'));
  await expect(taken).rejects.toThrow('aborted');
  expect(readdirSync(folder)).toEqual([]);
  (await shared.acquire(operator, present)).release();
});

test('what a killed process left is removed at the start', () => {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'left.db'), 'left');
  copies();
  expect(readdirSync(folder)).toEqual([]);
});

const gateway = (address: string) => ({ kind: 'gateway', address }) as const;
const isBusy = { type: 'Busy', status: 503 };

/** Requests a copy; the result shows its outcome so far. */
function requestCopy(shared: SnapshotCopies, address: string): { copy?: SnapshotCopy; refusal?: unknown } {
  const pending: { copy?: SnapshotCopy; refusal?: unknown } = {};
  void shared.acquire(gateway(address), new AbortController().signal).then(
    (copy) => {
      pending.copy = copy;
    },
    (error: unknown) => {
      pending.refusal = error;
    },
  );
  return pending;
}

test('one address has one copy at a time and a part of the queue, however many it requests', async () => {
  const shared = copies();
  const greedy = Array.from({ length: 40 }, () => requestCopy(shared, '192.0.2.1'));
  await until(() => greedy[0]?.copy !== undefined);
  expect(greedy.filter(({ copy }) => copy !== undefined)).toHaveLength(1);
  const refused = greedy.filter(({ refusal }) => refusal !== undefined);
  expect(refused).toHaveLength(40 - 1 - 16);
  for (const { refusal } of refused) expect(refusal).toMatchObject(isBusy);
  // Others get theirs meanwhile, one after another.
  for (const address of ['192.0.2.2', '192.0.2.3'])
    (await shared.acquire(gateway(address), present)).release();
  (await shared.acquire(operator, present)).release();
  for (const each of greedy.slice(0, 17)) {
    await until(() => each.copy !== undefined);
    each.copy?.release();
  }
  expect(readdirSync(folder)).toEqual([]);
});

test('two addresses with many requests delay a third one by at most one copy each', async () => {
  const shared = copies();
  const served: string[] = [];
  const running = new Map<string, SnapshotCopy>();
  const acquire = (address: string): Promise<void> =>
    shared.acquire(gateway(address), new AbortController().signal).then((copy) => {
      served.push(address);
      running.set(address, copy);
    });
  const requests = ['a', 'b'].flatMap((address) => Array.from({ length: 5 }, () => acquire(address)));
  await until(() => served.length === 2);
  requests.push(acquire('c'));
  while (served.length < requests.length || running.size > 0) {
    // One release admits one waiter: with two of them, the slower copy would seem to have waited longer.
    if (running.size === 2 || served.length === requests.length) {
      const [address = '', copy] = [...running][0] ?? [];
      running.delete(address);
      copy?.release();
    }
    await turn();
  }
  expect([...served].sort().join('')).toBe('aaaaabbbbbc');
  // Two are running, and at most one waiter of each address precedes the third.
  expect(served.indexOf('c')).toBeLessThanOrEqual(4);
});

test('the queue of all addresses is bounded too, and the operator never waits for them', async () => {
  const shared = copies();
  const addresses = Array.from({ length: 40 }, (_, index) => `192.0.2.${index}`);
  const all = addresses.map((address) => requestCopy(shared, address));
  await until(() => all.filter(({ copy }) => copy !== undefined).length === 2);
  expect(all.filter(({ refusal }) => refusal !== undefined)).toHaveLength(40 - 2 - 32);
  expect(readdirSync(folder)).toHaveLength(2);
  (await shared.acquire(operator, present)).release();
  for (const each of all) {
    if (each.refusal !== undefined) continue;
    await until(() => each.copy !== undefined);
    each.copy?.release();
  }
  expect(readdirSync(folder)).toEqual([]);
});
