/** Tests a supervisor whose fold meets another fault as soon as it is resumed. */
import { renameSync } from 'node:fs';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import pino from 'pino';
import { expect, onTestFinished, test } from 'vitest';
import { controlTopic } from '../../schemas/events/commit.ts';
import { openLog } from '../../shared/log/open-log.ts';
import { openDatabase } from '../../shared/runtime/sqlite.ts';
import { FoldMetrics } from '../../shared/snapshot/fold-metrics.ts';
import { openOrRebuild } from '../../shared/snapshot/open-snapshot.ts';
import { ChainWriter, known } from '../../test/support/commits.ts';
import { quickRecovery } from '../../test/support/fleet.ts';
import { folderOfTest } from '../../test/support/folders.ts';
import { SnapshotSupervisor } from './supervisor.ts';

test('a log removed while the snapshot cannot be written is not recovered from, and is followed once it is back', async () => {
  const dir = folderOfTest('supervisor');
  const logUrl = `sqlite:${join(dir, 'log')}`;
  const path = join(dir, 'state.db');
  const log = await openLog(logUrl, { topic: controlTopic });
  const chain = new ChainWriter();
  await log.append(chain.open().value);
  const { snapshot } = openOrRebuild(path);
  snapshot.db.pragma('busy_timeout = 0');
  let lines = '';
  const sink = new Writable({
    write: (chunk, _encoding, done) => {
      lines += String(chunk);
      done();
    },
  });
  const supervisor = new SnapshotSupervisor({
    name: 'gw-1',
    logUrl,
    log,
    snapshot,
    controlPlanes: [],
    publisher: { isAcknowledged: true, publish: () => undefined },
    metrics: new FoldMetrics(),
    logger: pino(sink),
    // Pause so long that the log has disappeared before the first retry.
    intervals: { ...quickRecovery, retryPauseMs: 300, retryPauseMsMax: 300 },
  });
  onTestFinished(async () => {
    await supervisor.close();
  });
  const seq = () => supervisor.snapshot.seq;
  const state = () => supervisor.fault?.state ?? 'live';
  await expect.poll(seq).toBe(1);

  const otherWriter = openDatabase(path, { durability: 'normal' });
  otherWriter.exec('BEGIN IMMEDIATE');
  await log.append(chain.add([known('pool.model_installed', { model: 'echo-small' })]).value);
  await expect.poll(state).toBe('unwritable');
  // Moves the SQLite file together with its write-ahead log, because the last records would otherwise be missing.
  const move = (from: string, to: string): void => {
    for (const suffix of ['', '-wal', '-shm']) renameSync(from + suffix, to + suffix);
  };
  const file = join(dir, 'log', `${controlTopic}.db`);
  move(file, `${file}.away`);
  otherWriter.exec('ROLLBACK');
  otherWriter.close();
  await expect.poll(state, { timeout: 20_000 }).toBe('refusing-log');
  await new Promise((resolve) => setImmediate(resolve));
  expect(lines).not.toContain('has recovered');

  move(`${file}.away`, file);
  await expect.poll(state, { timeout: 20_000 }).toBe('live');
  await expect.poll(seq).toBe(2);
  await expect.poll(() => lines).toContain('has recovered');
});
