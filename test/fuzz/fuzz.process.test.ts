/**
 * Runs every fuzz target briefly with a fixed seed: a few seconds of hostile input against a real fleet. `npm run fuzz` runs
 * longer.
 */
import { execFile } from 'node:child_process';
import { expect, test } from 'vitest';
import { campaign } from './campaign.ts';
import { targets } from './targets.ts';

test.each(targets.map((target) => [target.name, target] as const))(
  'a few seconds of the fuzz target %s end no process and find nothing',
  async (_name, target) => {
    const said: string[] = [];
    const summary = await campaign(target, { seed: 1, seconds: 2, say: (line) => said.push(line) });
    expect(said).toEqual([]);
    expect(summary.faults).toEqual([]);
    expect(summary.cases).toBeGreaterThan(2);
  },
  180_000,
);

const command = new URL('../../dist/test/fuzz/main.js', import.meta.url).pathname;

function fuzz(...args: readonly string[]): Promise<{ readonly code: number; readonly out: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [command, ...args], (error, out, err) =>
      resolve({ code: error ? Number(error.code) : 0, out: out + err }),
    );
  });
}

test('the command prints its seed first and a summary last', async () => {
  const { code, out } = await fuzz('http1', '--seconds', '2', '--seed', '5');
  expect(out).toMatch(/^SEED=5\nhttp1: \d+ cases in [\d.]+ s, \d+\/s, 0 faults/);
  expect(code).toBe(0);
});

test('the command refuses unknown arguments with status 2', async () => {
  for (const args of [['nothing'], ['json', '--seconds', 'x'], ['--case', '1'], ['--other']])
    expect(await fuzz(...args)).toMatchObject({
      code: 2,
      out: expect.stringContaining('usage: npm run fuzz'),
    });
});
