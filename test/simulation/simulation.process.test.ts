/** Tests the simulation of a fleet as `npm run simulate` runs it. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { folderOfTest } from '../support/folders.ts';

function journalOf(seed: number): string {
  const log = join(folderOfTest('simulation'), 'journal');
  const args = ['dist/test/simulation/main.js', '--seed', String(seed), '--minutes', '1.5', '--log', log];
  const { status, stdout } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  expect(status, stdout).toBe(0);
  return readFileSync(log, 'utf8');
}

test('two runs of a seed have the same events, byte for byte', () => {
  const journal = journalOf(1);
  expect(journal).toContain('is confirmed');
  expect(journalOf(1)).toBe(journal);
  expect(journalOf(2)).not.toBe(journal);
});
