/**
 * Tests that the WAL file stays small, even with a connection that is always inside a read transaction and with a parallel
 * verification.
 */
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { walBytesMax } from '../../shared/runtime/sqlite.ts';
import { verifyContinuously } from '../../shared/snapshot/background-verify.ts';
import { openOrRebuild } from '../../shared/snapshot/open-snapshot.ts';
import { fleetHistory, recordsOf } from '../../test/support/commits.ts';
import { folderOfFile } from '../../test/support/folders.ts';
import { SnapshotReader } from './reader.ts';

const folder = folderOfFile('reader');

const commits = 3000;
const records = recordsOf(fleetHistory(7, commits));
const turn = () => new Promise((resolve) => setImmediate(resolve));

test('a snapshot’s write-ahead log stays short despite a permanent reader, after any number of commits', async () => {
  const { snapshot } = openOrRebuild(join(folder, 'state.db'));
  const reader = new SnapshotReader(snapshot, 'gw-1');
  const closing = new AbortController();
  const verified = verifyContinuously(snapshot, closing.signal, 1);
  const bytes: number[] = [];
  let longestMs = 0;
  for (const record of records) {
    snapshot.apply([record]);
    const before = process.cpuUsage();
    reader.refresh();
    const { user, system } = process.cpuUsage(before);
    longestMs = Math.max(longestMs, (user + system) / 1000);
    bytes.push(statSync(`${snapshot.path}-wal`).size);
    await turn();
  }
  expect(reader.db.prepare('SELECT seq FROM position').pluck().get()).toBe(snapshot.seq);
  closing.abort();
  expect(await verified).toEqual([]);
  reader.close();
  snapshot.close();
  expect(Math.max(...bytes)).toBeLessThan(walBytesMax);
  expect(longestMs).toBeLessThan(50);
});
