/** Runs the simulation of a fleet as `npm run simulate` does. */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { mutate } from '../mutation/mutations.ts';
import { scaledMs } from '../support/budget.ts';
import { folderOfTest } from '../support/folders.ts';
import { plantedFaults } from './planted.ts';

/** Runs the program and returns what it printed. Rejects if it fails. */
async function simulate(...args: readonly string[]): Promise<string> {
  const all = ['dist/test/simulation/main.js', '--minutes', '1.5', ...args];
  return (await promisify(execFile)(process.execPath, all)).stdout;
}

/** Runs a seed and returns its journal. */
async function journalOf(seed: number): Promise<string> {
  const log = join(folderOfTest('simulation'), 'journal');
  await simulate('--seed', String(seed), '--log', log);
  return readFileSync(log, 'utf8');
}

/** More than a run takes on a busy machine. */
const timeoutMs = scaledMs(300_000);

test('two runs of a seed have the same events, byte for byte', { timeout: timeoutMs }, async () => {
  const [journal, again] = await Promise.all([journalOf(1), journalOf(1)]);
  expect(journal).toContain('is confirmed');
  expect(again).toBe(journal);
});

test('a planted fault is found', { timeout: timeoutMs }, async () => {
  expect(await simulate('--fault', 'a revoked key is accepted', '--seeds', '3')).toContain('found by seed');
});

test('every planted fault fits the built code', () => {
  for (const fault of plantedFaults()) {
    const built = readFileSync(join('dist', fault.module.replace(/\.ts$/, '.js')), 'utf8');
    expect(mutate(built, fault)).not.toBe(built);
  }
});
