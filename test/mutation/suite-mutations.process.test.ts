/**
 * Checks that mutations make tests fail and that survivors are detected. Tries a random sample; `npm run mutation` tries all
 * mutations.
 */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { runs } from '../support/budget.ts';
import { SuiteRunner } from './suite-runner.ts';

const root = new URL('../..', import.meta.url).pathname;
const slowMs = 900_000;
const sample = runs({ fast: 1, full: 1 });

test(
  'breaking any rule in a sample from shapes, dialects, forwarding, streams, meter or control flow fails a test',
  async () => {
    const run = promisify(execFile)(
      process.execPath,
      ['dist/test/mutation/main.js', '--sample', String(sample)],
      {
        cwd: root,
      },
    );
    const { stdout, stderr } = await run.catch((error: { stdout: string; stderr: string }) => error);
    // A failure shows the printed seed, so that the same sample can be drawn again.
    const seed = /SEED=\d+/.exec(stdout)?.[0];
    expect(
      stderr.split('\n').filter((line) => /SURVIVES|does not run|without a mutation/.test(line)),
      seed,
    ).toEqual([]);
    expect(stdout).toMatch(/^[1-9]\d* mutations, 0 faults$/m);
  },
  slowMs,
);

test(
  'a change without effect survives, and a text that does not occur exactly once is refused',
  async () => {
    const runner = await SuiteRunner.start(root);
    const tests = ['data-plane/request/counters.test.ts'];
    const module = 'data-plane/request/counters.ts';
    try {
      const harmless = { rule: 'none', module, from: 'weight === 0', to: '0 === weight', tests };
      expect(await runner.run(tests, harmless)).toMatchObject({ failed: [], errors: [] });
      const missing = { rule: 'none', module, from: 'no such text', to: '', tests };
      await expect(runner.run(tests, missing)).rejects.toThrow('0 times');
      const common = { rule: 'none', module, from: 'subject', to: '', tests };
      await expect(runner.run(tests, common)).rejects.toThrow('not once');
    } finally {
      await runner.close();
    }
  },
  slowMs,
);
