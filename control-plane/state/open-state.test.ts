/** Tests that a control plane folds its own log and refuses any other. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { pino } from 'pino';
import { expect, test } from 'vitest';
import type { LogRecord } from '../../shared/log/core/control-log.ts';
import { openDatabase } from '../../shared/runtime/sqlite.ts';
import { openOrRebuild } from '../../shared/snapshot/open-snapshot.ts';
import { ChainWriter, known } from '../../test/support/commits.ts';
import { folderOfFile } from '../../test/support/folders.ts';
import { forgePositionIn } from '../../test/support/forged-position.ts';
import { MemoryLog, MemoryTopic } from '../../test/support/memory-log.ts';
import { openState } from './open-state.ts';

const dir = folderOfFile('open-state');
const quiet = pino({ level: 'silent' });
let folders = 0;

async function logOf(records: readonly LogRecord[]): Promise<MemoryLog> {
  const log = new MemoryLog(new MemoryTopic());
  for (const { value } of records) await log.append(value);
  return log;
}

/** Writes a state.db that has folded the log `old` up to its second commit. */
function folded(): { path: string; records: LogRecord[] } {
  const path = join(dir, String(folders++), 'state.db');
  const writer = new ChainWriter({ log: 'old' });
  const records = [writer.open(), writer.add([known('pool.model_installed', { model: 'a' })])];
  const { snapshot } = openOrRebuild(path);
  snapshot.apply(records);
  snapshot.close();
  return { path, records };
}

test('the fold continues on the same log', async () => {
  const { path, records } = folded();
  const snapshot = await openState(path, await logOf(records), quiet);
  expect(snapshot.seq).toBe(2);
  snapshot.close();
});

test.each([
  [
    'another log',
    () => [new ChainWriter({ log: 'other' }).open()],
    /this is log other, .*came from log old; restore the log .*docs\/backup\.md; .* move state\.db away/,
  ],
  ['an empty log', () => [], /this is log \(empty\)/],
] as const)('%s is refused, and the state is kept', async (_kind, records, error) => {
  const { path } = folded();
  await expect(openState(path, await logOf(records()), quiet)).rejects.toThrow(error);
  const { snapshot } = openOrRebuild(path);
  expect([snapshot.log, snapshot.seq]).toEqual(['old', 2]);
  snapshot.close();
});

function change(path: string, sql: string): void {
  const db = openDatabase(path, { durability: 'normal' });
  db.exec(sql);
  db.close();
}

test.each([
  ['was changed', change, 'next_offset = 4611686018427387904'],
  ['belongs to no commit', forgePositionIn, 'seq = -1'],
  ['belongs to another commit', forgePositionIn, 'seq = 1'],
  ['belongs to another log', forgePositionIn, "log = 'other'"],
])('a state whose position %s is quarantined and rebuilt from the log', async (_, harm, columns) => {
  const { path, records } = folded();
  harm(path, `UPDATE position SET ${columns}`);
  const snapshot = await openState(path, await logOf(records), quiet);
  expect([snapshot.log, snapshot.seq]).toEqual([null, 0]);
  expect(existsSync(`${path}.aside`)).toBe(true);
  snapshot.close();
});
